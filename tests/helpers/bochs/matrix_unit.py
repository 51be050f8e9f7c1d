"""A target with a matrix unit, and what runs its kernels: this processor where it has one, else an emulated one."""

from __future__ import annotations

from helpers.bochs.kernels import run as emulated
from helpers.pipeline.candidates import run
from tilesmith.targets.target import parse_target

HOST = parse_target("host")
SAPPHIRE = parse_target("x86:avx512+amx+avx512vnni+avx512bf16;cores=2;l1=48K/64/1;l2=2M/64/1;l3=96M/64/2")
TARGET = HOST if HOST.has_matrix_unit else SAPPHIRE
RUN = run if HOST.has_matrix_unit else emulated
