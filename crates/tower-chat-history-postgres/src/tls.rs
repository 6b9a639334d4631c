//! TLS with rustls.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::OpenError;

/// Returns a connector that trusts the system's roots.
pub(crate) fn system_roots() -> Result<MakeRustlsConnect, OpenError> {
    let mut roots = RootCertStore::empty();
    // Certificates that rustls cannot read are left out.
    let found = rustls_native_certs::load_native_certs();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        return Err(OpenError::Tls("the system has no root certificates".into()));
    }
    // The provider is set explicitly, because rustls selects none if a program contains two.
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| OpenError::Tls(error.into()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::TcpListener,
    };

    use super::*;
    use crate::PostgresOptions;

    /// Starts a server that accepts TLS, then sends these bytes.
    fn server(then: &'static [u8]) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let mut client = client.unwrap();
                client.read_exact(&mut [0; 8]).unwrap();
                client.write_all(b"S").unwrap();
                // The client's first message is longer than this.
                client.read_exact(&mut [0; 64]).unwrap();
                client.write_all(then).unwrap();
            }
        });
        port
    }

    async fn open(port: u16) -> OpenError {
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let url = format!("postgres://user@localhost:{port}/x?sslmode=require");
        let options = PostgresOptions::new().retry_for(std::time::Duration::ZERO);
        options.connect_with(url.parse().unwrap(), MakeRustlsConnect::new(config)).await.unwrap_err()
    }

    #[tokio::test]
    async fn a_failed_handshake_is_distinguished_from_a_lost_connection() {
        // An alert: the two sides have no TLS version in common.
        let refused = open(server(b"\x15\x03\x03\x00\x02\x02\x46")).await;
        assert!(
            matches!(&refused, OpenError::Handshake(source) if source.to_string().contains("ProtocolVersion")),
            "{refused:?}"
        );
        assert!(!refused.is_retryable());
        let lost = open(server(b"")).await;
        assert!(matches!(lost, OpenError::Postgres { .. }) && lost.is_retryable(), "{lost:?}");
    }
}
