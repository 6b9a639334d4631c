//! Parameters that nobody sees.

use std::{error::Error, fmt};

use bytes::BytesMut;
use tokio_postgres::types::{Format, IsNull, ToSql, Type};

/// A parameter that does not show itself. The driver logs the parameters of a prepared statement, which are what people said.
pub(super) struct Redacted<'a>(pub(super) &'a (dyn ToSql + Sync));

impl ToSql for Redacted<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.0.to_sql_checked(ty, out)
    }

    fn accepts(_: &Type) -> bool {
        // The value itself says it when it is written.
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
