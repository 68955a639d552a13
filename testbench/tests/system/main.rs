//! Whole NICs with the real driver.
mod capture;
mod determinism;
mod foreign;
mod isolation;
mod pair;
mod traffic;
