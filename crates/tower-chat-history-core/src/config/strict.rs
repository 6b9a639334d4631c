//! Values of settings, without those that would vanish.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value, map::Entry};

use super::ConfigError;

/// A value of a setting, or the error of the first one in it that JSON cannot represent or that sets nothing.
pub(super) struct Strict(pub(super) Result<Value, ConfigError>);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Self)
    }
}

/// The error is part of the value, because formats add text of their own to errors.
struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Result<Value, ConfigError>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a setting")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Ok(value.into()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Ok(number.into()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Ok(number.into()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        let number = serde_json::Number::from_f64(number);
        Ok(number.map(Value::Number).ok_or_else(|| ConfigError::new("", "the number must be finite")))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Ok(text.into()))
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Err(ConfigError::new("", "it has no value: remove it for the default")))
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let (mut values, mut first_error) = (Vec::new(), None);
        let mut at = 0_usize;
        while let Some(Strict(value)) = elements.next_element()? {
            match value {
                Ok(value) => values.push(value),
                Err(error) => first_error = first_error.or_else(|| Some(error.within(&format!("[{at}]")))),
            }
            at += 1;
        }
        Ok(first_error.map_or(Ok(Value::Array(values)), Err))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let (mut values, mut first_error) = (Map::new(), None);
        while let Some((name, Strict(value))) = entries.next_entry::<String, Strict>()? {
            let error = match (values.entry(name), value) {
                (Entry::Occupied(entry), _) => Some(ConfigError::new(entry.key(), "it is set twice")),
                (Entry::Vacant(entry), Ok(value)) => {
                    entry.insert(value);
                    None
                }
                (Entry::Vacant(entry), Err(error)) => Some(within(error, entry.key())),
            };
            first_error = first_error.or(error);
        }
        Ok(first_error.map_or(Ok(Value::Object(values)), Err))
    }
}

/// Returns the error with the name of its group. An index follows a name without a point.
fn within(error: ConfigError, name: &str) -> ConfigError {
    if error.path.starts_with('[') {
        ConfigError::new(format!("{name}{}", error.path), error.reason)
    } else {
        error.within(name)
    }
}

#[cfg(test)]
mod tests {
    use serde::de::value::{Error as ValueError, MapDeserializer};
    use serde_json::json;

    use super::*;

    fn error(json: &str) -> String {
        serde_json::from_str::<Strict>(json).unwrap().0.unwrap_err().to_string()
    }

    #[test]
    fn a_setting_without_a_value_is_an_error_with_its_path() {
        assert_eq!(error(r#"{"a": {"b": null}}"#), "a.b: it has no value: remove it for the default");
        assert_eq!(error(r#"{"a": [{"b": 1}, {"b": null}]}"#), "a[1].b: it has no value: remove it for the default");
    }

    #[test]
    fn a_setting_that_is_set_twice_is_an_error_with_its_path() {
        assert_eq!(error(r#"{"a": {"b": 1, "c": 2, "b": 1}}"#), "a.b: it is set twice");
    }

    #[test]
    fn a_number_that_is_not_finite_is_an_error_with_its_path() {
        for number in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            let settings = MapDeserializer::<_, ValueError>::new([("a", number)].into_iter());
            let error = Strict::deserialize(settings).unwrap().0.unwrap_err();
            assert_eq!(error.to_string(), "a: the number must be finite");
        }
    }

    #[test]
    fn other_values_stay_as_they_are() {
        let value = json!({"a": [1, -1, 1.5, true, "text", {}], "b": {"c": []}});
        assert_eq!(Strict::deserialize(&value).unwrap().0, Ok(value.clone()));
    }
}
