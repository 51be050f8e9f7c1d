"""Devices: load an artifact, allocate, launch, time."""
