//! The trusted roots and the client certificate of connections with TLS.

use std::fmt;

use redis::{ClientTlsConfig, TlsCertificates};

/// Certificates and a key in PEM. By default, the system's roots are trusted and there is no client certificate.
#[derive(Clone, Default)]
pub(crate) struct Tls {
    roots: Option<Vec<u8>>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Tls {
    pub(crate) fn set_roots(&mut self, pem: Vec<u8>) {
        self.roots = Some(pem);
    }

    pub(crate) fn set_identity(&mut self, certificate: Vec<u8>, key: Vec<u8>) {
        self.identity = Some((certificate, key));
    }

    /// Returns the certificates for redis-rs, or `None` if there are none.
    pub(crate) fn certificates(&self) -> Option<TlsCertificates> {
        if self.roots.is_none() && self.identity.is_none() {
            return None;
        }
        let identity = self.identity.clone();
        let client_tls = identity.map(|(client_cert, client_key)| ClientTlsConfig { client_cert, client_key });
        Some(TlsCertificates { client_tls, root_cert: self.roots.clone() })
    }
}

/// The private key is not shown.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (roots, identity) = (self.roots.is_some(), self.identity.is_some());
        f.debug_struct("Tls").field("roots", &roots).field("identity", &identity).finish()
    }
}
