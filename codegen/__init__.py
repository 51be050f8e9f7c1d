"""From a candidate to an artifact: loop IR, passes, LLVM."""
