//! The program, over SQLite files.
#![allow(clippy::unwrap_used)] // A failed unwrap fails the test.

mod damage;
mod encrypted;
mod erasing;
mod explaining;
mod foreign;
mod moving;
mod reading;
mod support;
mod wrong;
