//! Under construction: see docs/ARCHITECTURE.md.
