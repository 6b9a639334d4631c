//! The stored form of recalled messages: the first cited position (-1 if another conversation is cited), a space, and
//! the record.
//! See `scripts/recalled.lua`.

use tower_chat_history_core::{Exchange, Recalled, StoreError};

use crate::error::Damaged;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Returns the value to store for an exchange. It is empty if the exchange has no recalled messages.
pub(crate) fn to_value(exchange: &Exchange) -> Result<String, StoreError> {
    let Some(recalled) = &exchange.recalled else { return Ok(String::new()) };
    let record = recalled.encode().map_err(StoreError::backend)?;
    Ok(format!("{} {record}", least_cited(exchange)))
}

/// Returns the first cited position as it is stored, which is empty if none is cited.
pub(crate) fn least_cited(exchange: &Exchange) -> String {
    let cited = exchange.recalled.as_ref().and_then(Recalled::least_cited);
    cited.map(|cited| cited.to_string()).unwrap_or_default()
}

/// Returns the first cited position, as it is stored, and the record of a value. An empty value has no record.
pub(crate) fn from_value(value: &[u8]) -> Result<(&str, Option<&str>), BoxError> {
    if value.is_empty() {
        return Ok(("", None));
    }
    let (cited, record) = std::str::from_utf8(value)?.split_once(' ').ok_or(Damaged)?;
    Ok((cited, Some(record)))
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::{Citation, ExchangeId, Seq};

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
            let (cited, record) = from_value(value.as_bytes()).unwrap();
            assert_eq!((cited, record), (stored, Some(recalled.encode().unwrap().as_str())));
        }
        assert_eq!(from_value(b"").unwrap(), ("", None));
        for damaged in [&b"secret"[..], b"1 \xff", b"{}"] {
            assert!(!from_value(damaged).unwrap_err().to_string().contains("secret"));
        }
    }
}
