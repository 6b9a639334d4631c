//! Parameters whose `Debug` output is hidden.

use std::{error::Error, fmt};

use bytes::BytesMut;
use tokio_postgres::types::{Format, IsNull, ToSql, Type};

/// A parameter that hides its value. The driver logs the parameters of prepared statements, which contain message text.
pub(super) struct Redacted<'a>(pub(super) &'a (dyn ToSql + Sync));

impl ToSql for Redacted<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.0.to_sql_checked(ty, out)
    }

    fn accepts(_: &Type) -> bool {
        // The value itself is checked when it is written.
        true
    }

    fn to_sql_checked(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.0.to_sql_checked(ty, out)
    }

    fn encode_format(&self, ty: &Type) -> Format {
        self.0.encode_format(ty)
    }
}

impl fmt::Debug for Redacted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("_")
    }
}
