"""A crate of Rust around a library, without crates of others: a call that checks sizes, and an example."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...codegen.artifact import Artifact, BufferSpec
from ...tensor.dtype import DTYPES


def cargo_text(name: str) -> str:
    """The manifest."""
    return (
        f'[package]\nname = "{name.replace("_", "-")}"\nversion = "0.1.0"\nedition = "2021"\nlinks = "{name}"\n\n'
        f'[lib]\nname = "{name}"\n\n[[bin]]\nname = "{name}_example"\npath = "src/main.rs"\n\n[workspace]\n'
    )


def build_text(name: str, openmp: bool) -> str:
    """The script that says where the static library is, and what it needs."""
    needed = [*(["gomp"] if openmp else []), "m", "pthread"]
    lines = [
        '    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();',
        '    println!("cargo:rustc-link-search=native={}", folder.display());',
        f'    println!("cargo:rustc-link-lib=static={name}");',
        *(f'    println!("cargo:rustc-link-lib=dylib={one}");' for one in needed),
        f'    println!("cargo:rerun-if-changed={{}}", folder.join("lib{name}.a").display());',
    ]
    return "\n".join(["fn main() {", *lines, "}"]) + "\n"


_BYTES = """/// The bytes of numbers, for `run`.
pub fn bytes<T: Copy>(array: &[T]) -> &[u8] {
    unsafe { std::slice::from_raw_parts(array.as_ptr().cast(), std::mem::size_of_val(array)) }
}

/// The bytes of numbers that `run` writes.
pub fn bytes_mut<T: Copy>(array: &mut [T]) -> &mut [u8] {
    unsafe { std::slice::from_raw_parts_mut(array.as_mut_ptr().cast(), std::mem::size_of_val(array)) }
}
"""


def library_text(name: str, artifact: Artifact) -> str:
    """The library: arrays are bytes in C order, whose lengths are checked."""
    return f"""//! {artifact.name}: the library beside this crate.
use std::ffi::{{c_char, c_int, c_void, CStr, CString}};

extern "C" {{
    fn {name}_init(weights: *const c_char) -> c_int;
    fn {name}_run(inputs: *const *const c_void, outputs: *const *mut c_void, workspace: *mut c_void) -> c_int;
    fn {name}_error(status: c_int) -> *const c_char;
    fn {name}_target() -> *const c_char;
    fn {name}_free();
}}

/// Bytes of each input, in order: {_listed(artifact.inputs)}.
pub const INPUT_BYTES: [usize; {len(artifact.inputs)}] = [{_sizes(artifact.inputs)}];
/// Bytes of each output, in order: {_listed(artifact.outputs)}.
pub const OUTPUT_BYTES: [usize; {len(artifact.outputs)}] = [{_sizes(artifact.outputs)}];

fn said(status: c_int) -> Result<(), String> {{
    if status == 0 {{
        return Ok(());
    }}
    Err(unsafe {{ CStr::from_ptr({name}_error(status)) }}.to_string_lossy().into_owned())
}}

/// Maps the weights, where they are a file beside the library, and prepares constants. Once; again, it does nothing.
pub fn init(weights: Option<&str>) -> Result<(), String> {{
    let path = weights.map(|path| CString::new(path).expect("a path has no zero byte"));
    said(unsafe {{ {name}_init(path.as_ref().map_or(std::ptr::null(), |path| path.as_ptr())) }})
}}

{_BYTES}
/// Computes the outputs. Arrays lie as their type asks for.
pub fn run(inputs: [&[u8]; {len(artifact.inputs)}], outputs: [&mut [u8]; {len(artifact.outputs)}]) -> Result<(), String> {{
    let given = inputs.iter().map(|one| one.len()).eq(INPUT_BYTES) && outputs.iter().map(|one| one.len()).eq(OUTPUT_BYTES);
    if !given {{
        return Err("an array has the wrong size".to_string());
    }}
    let inputs = inputs.map(|one| one.as_ptr().cast::<c_void>());
    let outputs = outputs.map(|one| one.as_mut_ptr().cast::<c_void>());
    said(unsafe {{ {name}_run(inputs.as_ptr(), outputs.as_ptr(), std::ptr::null_mut()) }})
}}

/// The code that this processor gets, as in x86:avx512; empty where there is none.
pub fn target() -> String {{
    unsafe {{ CStr::from_ptr({name}_target()) }}.to_string_lossy().into_owned()
}}

/// Gives memory back.
///
/// # Safety
/// Nothing may run any more.
pub unsafe fn free() {{
    {name}_free();
}}
"""


def program_text(name: str, artifact: Artifact, weights: str) -> str:
    """A program that runs the library on zeros and tells the time of a call, as the one in C does."""
    inputs = "".join(
        f"    let input{n} = vec![0u64; {name}::INPUT_BYTES[{n}].div_ceil(8)];\n" for n in _count(artifact.inputs)
    )
    outputs = "".join(
        f"    let mut output{n} = vec![0u64; {name}::OUTPUT_BYTES[{n}].div_ceil(8)];\n"
        for n in _count(artifact.outputs)
    )
    given = ", ".join(f"&{name}::bytes(&input{n})[..{name}::INPUT_BYTES[{n}]]" for n in _count(artifact.inputs))
    made = ", ".join(
        f"&mut {name}::bytes_mut(&mut output{n})[..{name}::OUTPUT_BYTES[{n}]]" for n in _count(artifact.outputs)
    )
    beside = f'Some("{weights}".to_string())' if weights else "None"
    return f"""// cargo run --release
fn main() -> Result<(), String> {{
    let weights = std::env::args().nth(1).or({beside});
    {name}::init(weights.as_deref())?;
{inputs}{outputs}    let mut best = f64::INFINITY;
    for _ in 0..20 {{
        let start = std::time::Instant::now();
        {name}::run([{given}], [{made}])?;
        best = best.min(start.elapsed().as_secs_f64());
    }}
    println!("{name} for {{}}: {{:.3}} ms", {name}::target(), 1e3 * best);
    unsafe {{ {name}::free() }};
    Ok(())
}}
"""


def _count(specs: Sequence[BufferSpec]) -> range:
    return range(len(specs))


def _sizes(specs: Sequence[BufferSpec]) -> str:
    return ", ".join(str(prod(one.shape) * DTYPES[one.dtype].bytes) for one in specs)


def _listed(specs: Sequence[BufferSpec]) -> str:
    return ", ".join(f"{one.name} {one.dtype}{list(one.shape)}" for one in specs)
