//! Reading settings.

use serde::{Deserialize as _, Deserializer, de::DeserializeOwned};

use super::{ConfigError, strict::Strict};

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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::{super::Secret, *};

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
}
