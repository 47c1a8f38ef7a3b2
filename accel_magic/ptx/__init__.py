"""PTX: text and fatbins, read and written, and the LLVM library that emits it."""
