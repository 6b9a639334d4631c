//! The server's eviction policy.

use redis::{RedisError, Value};

use crate::{
    connection::Connection,
    error::{Failure, OpenError},
};

/// The policy that evicts nothing.
const NOEVICTION: &str = "noeviction";

/// Returns the server's eviction policy, or `None` if the server does not report it. If the nodes of a Cluster differ,
/// it is the first one that evicts.
///
/// This is also the first command that is sent on a new connection. If the server requires a password and the address
/// has none, this command is therefore the first one that the server refuses.
pub(crate) async fn policy(connection: &Connection) -> Result<Option<String>, RedisError> {
    let mut info = redis::cmd("INFO");
    info.arg("memory");
    let mut config = redis::cmd("CONFIG");
    config.arg("GET").arg("maxmemory-policy");
    for command in [info, config] {
        match connection.send(&command).await {
            Ok(answer) => {
                let mut policies = Vec::new();
                find(&answer, &mut policies);
                if let Some(policy) = policies.iter().find(|policy| *policy != NOEVICTION).or(policies.first()) {
                    return Ok(Some(policy.clone()));
                }
            }
            Err(error) => {
                let failure = Failure(error.clone());
                // If the user may not run this command, opening still succeeds. If the server is unreachable or refuses
                // the credentials, opening fails.
                if failure.is_transient() || failure.credentials().is_some() {
                    return Err(error);
                }
            }
        }
    }
    Ok(None)
}

/// Logs a warning if the server evicts keys, or refuses the server.
pub(crate) fn check_policy(policy: Option<String>, require_noeviction: bool) -> Result<(), OpenError> {
    match policy {
        Some(policy) if policy == NOEVICTION => {}
        policy if require_noeviction => {
            return Err(OpenError::Evicts { policy: policy.unwrap_or_else(|| "unknown".into()) });
        }
        Some(policy) => tracing::warn!(
            maxmemory_policy = policy,
            "this server evicts keys, and so conversations, when its memory is full: set maxmemory-policy to noeviction"
        ),
        None => tracing::warn!("this server does not report whether it evicts keys when its memory is full"),
    }
    Ok(())
}

/// Collects the policies in a response: `maxmemory_policy:…` in the text of `INFO`, or the value of `maxmemory-policy`.
fn find(answer: &Value, policies: &mut Vec<String>) {
    let text = |value: &Value| match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.clone()),
        _ => None,
    };
    match answer {
        Value::Array(items) | Value::Set(items) => {
            if let [name, value] = items.as_slice()
                && text(name).is_some_and(|name| name == "maxmemory-policy")
            {
                policies.extend(text(value));
            }
            items.iter().for_each(|item| find(item, policies));
        }
        Value::Map(pairs) => {
            for (name, value) in pairs {
                if text(name).is_some_and(|name| name == "maxmemory-policy") {
                    policies.extend(text(value));
                }
                find(value, policies);
            }
        }
        other => {
            let lines = text(other).unwrap_or_default();
            let found = lines.lines().filter_map(|line| line.strip_prefix("maxmemory_policy:"));
            policies.extend(found.map(|policy| policy.trim().to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn every_form_of_answer_is_understood() {
        let info = bulk("# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\nx:1\r\n");
        let other = bulk("maxmemory_policy:allkeys-lru\r\n");
        let config = Value::Array(vec![bulk("maxmemory-policy"), bulk("volatile-ttl")]);
        let map = Value::Map(vec![(bulk("maxmemory-policy"), bulk("volatile-ttl"))]);
        let nodes = Value::Map(vec![(bulk("a:1"), info.clone()), (bulk("b:2"), other)]);
        for (answer, expected) in [
            (info, vec!["noeviction"]),
            (config, vec!["volatile-ttl"]),
            (map, vec!["volatile-ttl"]),
            (nodes, vec!["noeviction", "allkeys-lru"]),
            (Value::Nil, vec![]),
        ] {
            let mut found = Vec::new();
            find(&answer, &mut found);
            assert_eq!(found, expected, "{answer:?}");
        }
    }

    #[test]
    fn only_a_store_that_requires_it_refuses_eviction() {
        for evicts in [Some("allkeys-lru".to_owned()), None] {
            check_policy(evicts.clone(), false).unwrap();
            assert!(matches!(check_policy(evicts, true), Err(OpenError::Evicts { .. })));
        }
        check_policy(Some(NOEVICTION.into()), true).unwrap();
    }
}
