//! Whether the server throws conversations away when its memory is full.

use redis::{RedisError, Value};

use crate::{OpenError, connection::Connection, error::Failure};

/// The policy that evicts nothing.
const NONE: &str = "noeviction";

/// The server's eviction policy, the first other one if nodes of a cluster have several; `None` if it may not be asked for.
///
/// It is also the first command on a new connection. An address without a password sends nothing before it that a
/// server could refuse, so a missing password shows here.
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
                if let Some(policy) = policies.iter().find(|policy| *policy != NONE).or(policies.first()) {
                    return Ok(Some(policy.clone()));
                }
            }
            Err(error) => {
                let failure = Failure(error.clone());
                // Whoever may not ask still can have a store. A server that is not there, or that lets nobody in
                // without a password, is another matter.
                if failure.may_pass() || failure.credentials().is_some() {
                    return Err(error);
                }
            }
        }
    }
    Ok(None)
}

/// Warns of a server that evicts, or refuses it.
pub(crate) fn judge(policy: Option<String>, require_noeviction: bool) -> Result<(), OpenError> {
    match policy {
        Some(policy) if policy == NONE => {}
        policy if require_noeviction => {
            return Err(OpenError::Evicts { policy: policy.unwrap_or_else(|| "unknown".into()) });
        }
        Some(policy) => tracing::warn!(
            maxmemory_policy = policy,
            "this Redis evicts keys when its memory is full, and conversations with them: set maxmemory-policy to noeviction"
        ),
        None => tracing::warn!("this Redis does not say whether it evicts keys when its memory is full"),
    }
    Ok(())
}

/// Collects the policies in an answer: `maxmemory_policy:…` in the text of `INFO`, or the value behind `maxmemory-policy`.
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
            judge(evicts.clone(), false).unwrap();
            assert!(matches!(judge(evicts, true), Err(OpenError::Evicts { .. })));
        }
        judge(Some(NONE.into()), true).unwrap();
    }
}
