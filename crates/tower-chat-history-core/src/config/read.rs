//! Reading settings.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value, map::Entry};

use super::ConfigError;

/// Reads settings from any format of `serde`.
///
/// Parse the text first, for example with `toml::from_str::<toml::Table>`, which returns the errors of the text itself.
///
/// ```
/// use serde::Deserialize;
/// use tower_chat_history_core::config::read;
///
/// #[derive(Debug, Deserialize)]
/// struct Settings {
///     limits: Limits,
/// }
///
/// #[derive(Debug, Deserialize)]
/// #[serde(deny_unknown_fields)]
/// struct Limits {
///     max_input_bytes: u64,
/// }
///
/// let json = serde_json::json!({"limits": {"max_input_bytes": 65_536}});
/// assert_eq!(read::<Settings, _>(json)?.limits.max_input_bytes, 65_536);
///
/// let json = serde_json::json!({"limits": {"max_input_bytes": "64 KiB"}});
/// let error = read::<Settings, _>(json).unwrap_err();
/// assert_eq!(error.to_string(), "limits.max_input_bytes: expected u64");
/// # Ok::<(), tower_chat_history_core::config::ConfigError>(())
/// ```
///
/// # Errors
///
/// Returns the path of the first setting that cannot be read. The error has no text of a setting, only names of
/// settings.
pub fn read<'de, T, D>(settings: D) -> Result<T, ConfigError>
where
    T: DeserializeOwned,
    D: Deserializer<'de>,
{
    // Errors of other formats can quote whole lines of their text. Those of this value have a known form.
    let Strict(values) =
        Strict::deserialize(settings).map_err(|_| ConfigError::new("", "the settings are not values of JSON"))?;
    let values = values?;
    serde_path_to_error::deserialize(values).map_err(|error| {
        let path = error.path().to_string();
        ConfigError::new(if path == "." { String::new() } else { path }, reason(&error.inner().to_string()))
    })
}

/// Returns the part of an error that has names of settings and expectations, and no values.
fn reason(error: &str) -> String {
    let has_only_names = ["missing field ", "unknown field "];
    if has_only_names.iter().any(|start| error.starts_with(start)) {
        return error.to_owned();
    }
    // The value is before the last expectation, and may contain the word itself.
    match error.rsplit_once(", expected ") {
        Some((_, expected)) => format!("expected {expected}"),
        None => "the value is not valid".to_owned(),
    }
}

/// A value of a setting, or the error of the first one in it that JSON cannot represent or that sets nothing.
struct Strict(pub(super) Result<Value, ConfigError>);

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
        let mut values = Vec::new();
        let mut first_error = None;
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
        let mut values = Map::new();
        let mut first_error = None;

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
    use std::collections::BTreeMap;

    use serde::{
        Deserialize,
        de::value::{Error as ValueError, MapDeserializer},
    };
    use serde_json::{Value, json};

    use super::*;
    use crate::config::Secret;

    #[derive(Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    #[allow(dead_code)] // The fields are only read.
    struct Settings {
        url: Secret,
        count: u32,
        mode: Mode,
        under: BTreeMap<String, Settings>,
        list: Vec<Settings>,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Mode {
        #[default]
        One,
        Two,
    }

    const SECRET: &str = "redis://:opensesame, expected \"u64@host";

    fn error(settings: Value) -> (String, String) {
        let ConfigError { path, reason } = read::<Settings, _>(settings).unwrap_err();
        (path, reason)
    }

    #[test]
    fn an_error_has_the_path_of_the_setting() {
        let expected = |path: &str, reason: &str| (path.to_owned(), reason.to_owned());
        assert_eq!(error(json!({"count": "1"})), expected("count", "expected u32"));
        assert_eq!(error(json!({"list": [{}, {"count": -1}]})), expected("list[1].count", "expected u32"));
        assert_eq!(error(json!({"under": {"acme": {"mode": 3}}})).0, "under.acme.mode");
        assert_eq!(error(json!({"mode": "three"})), expected("mode", "expected `one` or `two`"));
        let (path, reason) = error(json!({"under": {"acme": {"cuont": 1}}}));
        assert_eq!(path, "under.acme.cuont");
        assert!(reason.starts_with("unknown field `cuont`, expected one of `url`, `count`"), "{reason}");
    }

    #[test]
    fn an_error_shows_no_value() {
        for settings in [
            json!({"count": SECRET}),
            json!({"mode": SECRET}),
            json!({"url": [SECRET]}),
            json!({"url": {"url": SECRET}}),
            json!({"list": SECRET}),
            json!({"under": {"acme": SECRET}}),
            json!(SECRET),
        ] {
            let error = read::<Settings, _>(settings).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("opensesame"), "{error}");
        }
        let settings: Settings = read(json!({"url": SECRET})).unwrap();
        assert!(!format!("{settings:?}").contains("opensesame"));
        assert_eq!(settings.url.expose(), SECRET);
    }

    fn strict_error(json: &str) -> String {
        serde_json::from_str::<Strict>(json).unwrap().0.unwrap_err().to_string()
    }

    #[test]
    fn a_setting_without_a_value_is_an_error_with_its_path() {
        assert_eq!(strict_error(r#"{"a": {"b": null}}"#), "a.b: it has no value: remove it for the default");
        assert_eq!(
            strict_error(r#"{"a": [{"b": 1}, {"b": null}]}"#),
            "a[1].b: it has no value: remove it for the default"
        );
    }

    #[test]
    fn a_setting_that_is_set_twice_is_an_error_with_its_path() {
        assert_eq!(strict_error(r#"{"a": {"b": 1, "c": 2, "b": 1}}"#), "a.b: it is set twice");
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
