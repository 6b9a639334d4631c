//! Values that differ in some fields. The structs of the core crate may get more fields, so other crates cannot use
//! Rust's struct update syntax for them.

/// Returns a value with these fields replaced. As in a struct expression, `field` stands for `field: field`.
macro_rules! with {
    ($base:expr, $($field:ident $(: $value:expr)?),+ $(,)?) => {{
        let mut changed = $base;
        $(changed.$field = with!(@ $field $($value)?);)+
        changed
    }};
    (@ $field:ident $value:expr) => { $value };
    (@ $field:ident) => { $field };
}
