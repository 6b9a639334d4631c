//! The stored form of recalled messages: the first cited position (-1 if another conversation is cited), a space, and
//! the record.
//! See `scripts/recalled.lua`.

use tower_chat_history_core::{Exchange, StoreError};

use crate::error::Damaged;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Returns the value to store for an exchange. It is empty if the exchange has no recalled messages.
pub(crate) fn to_value(exchange: &Exchange) -> Result<String, StoreError> {
    let Some(recalled) = &exchange.recalled else { return Ok(String::new()) };
    let record = recalled.encode().map_err(StoreError::backend)?;
    let cited = recalled.least_cited().map(|cited| cited.to_string()).unwrap_or_default();
    Ok(format!("{cited} {record}"))
}

/// Returns the record of a value. An empty value has none.
pub(crate) fn from_value(value: &[u8]) -> Result<Option<&str>, BoxError> {
    if value.is_empty() {
        return Ok(None);
    }
    let (_cited, record) = std::str::from_utf8(value)?.split_once(' ').ok_or(Damaged)?;
    Ok(Some(record))
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::{Citation, ExchangeId, Recalled, Seq};

    use super::*;

    #[test]
    fn a_value_is_the_first_cited_position_and_the_record() {
        let mut exchange = Exchange::new(ExchangeId::new("e").unwrap(), []);
        assert_eq!(to_value(&exchange).unwrap(), "");
        let [own, other] = [12, 7].map(|seq| Citation::new(Seq::new(seq), 0..1));
        let other_conversation = other.clone().of("other".parse().unwrap());
        for (citations, stored) in
            [(vec![], ""), (vec![own.clone(), other], "7"), (vec![own, other_conversation], "-1")]
        {
            let recalled = Recalled::new("text with spaces", citations);
            exchange.recalled = Some(recalled.clone());
            let value = to_value(&exchange).unwrap();
            let record = recalled.encode().unwrap();
            assert_eq!(value, format!("{stored} {record}"));
            assert_eq!(from_value(value.as_bytes()).unwrap(), Some(record.as_str()));
        }
        assert_eq!(from_value(b"").unwrap(), None);
        for damaged in [&b"secret"[..], b"1 \xff", b"{}"] {
            assert!(!from_value(damaged).unwrap_err().to_string().contains("secret"));
        }
    }
}
