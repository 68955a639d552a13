#![no_std]
//! Under construction: see docs/ARCHITECTURE.md.
