//! Whole NICs with the real driver.
mod pair;
