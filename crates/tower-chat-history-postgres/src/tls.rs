//! TLS by rustls.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::OpenError;

/// A connector that trusts the system's roots.
pub(crate) fn system_roots() -> Result<MakeRustlsConnect, OpenError> {
    let mut roots = RootCertStore::empty();
    // Some of the system's certificates may not be of a kind that rustls reads: those that are suffice.
    let found = rustls_native_certs::load_native_certs();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        return Err(OpenError::Tls("the system has no root certificates".into()));
    }
    // The provider is named: where a program has two of them, rustls does not choose.
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| OpenError::Tls(error.into()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}
