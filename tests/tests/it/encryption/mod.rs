//! Encrypted conversations over every store.

mod killed;
