"""Reading and writing PTX text, reading fatbins, and access to LLVM, which emits PTX."""
