//! Whom a connection with TLS trusts, and as whom it shows itself.

use std::fmt;

use redis::{ClientTlsConfig, TlsCertificates};

/// Certificates and a key in PEM. Empty: the system's roots, and no certificate of one's own.
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

    /// As redis-rs takes them; `None` if there are none.
    pub(crate) fn certificates(&self) -> Option<TlsCertificates> {
        if self.roots.is_none() && self.identity.is_none() {
            return None;
        }
        let identity = self.identity.clone();
        let client_tls = identity.map(|(client_cert, client_key)| ClientTlsConfig { client_cert, client_key });
        Some(TlsCertificates { client_tls, root_cert: self.roots.clone() })
    }
}

/// It has a private key.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (roots, identity) = (self.roots.is_some(), self.identity.is_some());
        f.debug_struct("Tls").field("roots", &roots).field("identity", &identity).finish()
    }
}
