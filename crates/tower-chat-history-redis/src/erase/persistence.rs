//! The state of the files of all servers: what `INFO persistence` and `CONFIG GET save` report.

use redis::Value;

/// The reports of the servers, one for each master.
pub(super) struct Persistence {
    reports: Vec<String>,
}

impl Persistence {
    /// Reads the answer to `INFO persistence`. The answer of a Cluster is a map.
    pub(super) fn new(answer: &Value) -> Self {
        Self { reports: by_server(answer).filter_map(text).collect() }
    }

    /// Returns the number of servers.
    pub(super) const fn servers(&self) -> usize {
        self.reports.len()
    }

    /// Returns the number of servers that report this value.
    pub(super) fn count(&self, name: &str, value: &str) -> usize {
        let has = |report: &&String| {
            report.lines().any(|line| line.trim_end().split_once(':').is_some_and(|found| found == (name, value)))
        };
        self.reports.iter().filter(has).count()
    }

    /// Returns `true` if a server is writing a file, or is about to.
    pub(super) fn is_writing(&self) -> bool {
        let names = ["aof_rewrite_in_progress", "aof_rewrite_scheduled", "rdb_bgsave_in_progress"];
        names.iter().any(|name| self.count(name, "1") > 0)
    }
}

/// Returns the number of servers that make snapshots by themselves: those with a value of the setting `save`.
pub(super) fn with_snapshots(answer: &Value) -> usize {
    let is_set = |value: &Value| text(value).is_some_and(|value| !value.is_empty());
    let of_server = |answer: &Value| match answer {
        Value::Array(items) => items.get(1).is_some_and(is_set),
        Value::Map(pairs) => pairs.first().is_some_and(|(_, value)| is_set(value)),
        _ => false,
    };
    match answer {
        // The setting of a single server is a map as well, in RESP3.
        Value::Map(pairs) if pairs.iter().any(|(_, value)| matches!(value, Value::Array(_) | Value::Map(_))) => {
            pairs.iter().filter(|(_, value)| of_server(value)).count()
        }
        answer => usize::from(of_server(answer)),
    }
}

fn by_server(answer: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match answer {
        Value::Map(pairs) => Box::new(pairs.iter().map(|(_, value)| value)),
        answer => Box::new(std::iter::once(answer)),
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn reports_of_all_servers_are_read() {
        let [on, off] =
            ["# Persistence\r\naof_enabled:1\r\nrdb_bgsave_in_progress:1\r\n", "aof_enabled:0\r\n"].map(bulk);
        let single = Persistence::new(&on);
        assert_eq!((single.servers(), single.count("aof_enabled", "1"), single.is_writing()), (1, 1, true));
        let cluster = Persistence::new(&Value::Map(vec![(bulk("a:1"), on), (bulk("b:2"), off)]));
        assert_eq!((cluster.servers(), cluster.count("aof_enabled", "1")), (2, 1));
    }

    #[test]
    fn settings_of_all_servers_are_read() {
        let setting = |value: &str| Value::Array(vec![bulk("save"), bulk(value)]);
        let [set, unset] = [setting("3600 1"), setting("")];
        assert_eq!((with_snapshots(&set), with_snapshots(&unset)), (1, 0));
        assert_eq!(with_snapshots(&Value::Map(vec![(bulk("save"), bulk("3600 1"))])), 1);
        assert_eq!(with_snapshots(&Value::Map(vec![(bulk("a:1"), set), (bulk("b:2"), unset)])), 1);
    }
}
