//! Exchanges that are read without the wrapper that decrypts them.

use super::StoreError;
use crate::exchange::Recorded;

impl Recorded {
    /// Checks that the exchange is not [encrypted](crate::Exchange::sealed). Everything that looks at messages calls
    /// this first. Otherwise an encrypted exchange would look like one without messages.
    ///
    /// # Errors
    ///
    /// Returns [`Sealed`](StoreError::Sealed) if it is encrypted.
    pub fn check_unsealed(&self) -> Result<(), StoreError> {
        if self.exchange.sealed.is_some() { Err(StoreError::Sealed { seq: self.seq }) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{exchange::Exchange, exchange_id::ExchangeId, message::Message, seq::Seq};

    #[test]
    fn an_encrypted_exchange_is_a_typed_error() {
        let exchange = Exchange::new(ExchangeId::new("e1").unwrap(), [Message::user("hi")]);
        let recorded = |exchange| Recorded::new(Seq::new(7), exchange);
        let error = recorded(exchange.sealed_as("x".repeat(100)).unwrap()).check_unsealed().unwrap_err();
        assert!(matches!(error, StoreError::Sealed { seq } if seq == Seq::new(7)), "{error:?}");
        assert!(recorded(exchange).check_unsealed().is_ok());
    }
}
