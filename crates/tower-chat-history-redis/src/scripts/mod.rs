//! The scripts that the server runs, and the keys of a conversation that they use. Each script is one atomic step.

use std::sync::LazyLock;

use tower_chat_history_core::ConversationId;

/// A script, and the hash by which the server knows it.
pub(crate) struct Script {
    pub(crate) code: &'static str,
    pub(crate) hash: String,
}

impl Script {
    fn new(code: &'static str) -> Self {
        Self { code, hash: redis::Script::new(code).get_hash().to_owned() }
    }
}

/// Joins files into a script: those that it shares with others, and its own. If its own file has functions for several
/// scripts, this script returns the result of one of them.
///
/// With `allow_oom`, the script begins with the line that marks it as one that may write, and that a full server runs
/// all the same. It is for scripts that only read, or that make room. A server that is no longer a master refuses a
/// script that may write, and so does not return stale data.
macro_rules! script {
    (allow_oom: $($file:literal),+ $(=> $function:literal)?) => {
        LazyLock::new(|| {
            Script::new(concat!(
                "#!lua flags=allow-oom\n",
                $(include_str!($file)),+
                $(, "return ", $function, "()\n")?
            ))
        })
    };
    ($($file:literal),+ $(=> $function:literal)?) => {
        LazyLock::new(|| Script::new(concat!($(include_str!($file)),+ $(, "return ", $function, "()\n")?)))
    };
}

type Lazy = LazyLock<Script>;

pub(crate) static LOAD: Lazy = script!(allow_oom: "state.lua", "read.lua", "load.lua");
pub(crate) static READ: Lazy = script!(allow_oom: "state.lua", "read.lua", "page.lua");
pub(crate) static DESCRIBE: Lazy = script!(allow_oom: "state.lua", "describe.lua");

pub(crate) static APPEND: Lazy = script!("refusals.lua", "state.lua", "write.lua", "append.lua");
/// Registers the conversation, then appends. Only a server that has the keys of all slots can run it.
pub(crate) static CREATE: Lazy =
    script!("refusals.lua", "registry.lua", "register.lua", "state.lua", "write.lua", "create.lua", "append.lua");

pub(crate) static FORK: Lazy = script!("refusals.lua", "state.lua", "write.lua", "fork.lua");
pub(crate) static STAGE: Lazy = script!("refusals.lua", "state.lua", "write.lua", "stage.lua");
/// Deletes exchanges that were staged.
pub(crate) static UNSTAGE: Lazy =
    LazyLock::new(|| Script::new("redis.call('UNLINK', unpack(KEYS))\nreturn {'unstaged'}\n"));

pub(crate) static COMPACT: Lazy = script!("refusals.lua", "state.lua", "write.lua", "replace.lua" => "compact");
pub(crate) static LABEL: Lazy = script!("refusals.lua", "state.lua", "write.lua", "replace.lua" => "label");

pub(crate) static TRUNCATE: Lazy =
    script!("refusals.lua", "state.lua", "read.lua", "write.lua", "cut.lua" => "truncate");
pub(crate) static PRUNE: Lazy = script!("refusals.lua", "state.lua", "read.lua", "write.lua", "cut.lua" => "prune");
pub(crate) static SWEEP: Lazy =
    script!("refusals.lua", "state.lua", "read.lua", "write.lua", "cut.lua" => "sweep_part");

pub(crate) static DELETE: Lazy = script!(allow_oom: "refusals.lua", "state.lua", "write.lua", "erase.lua" => "delete");
pub(crate) static ERASE: Lazy = script!(allow_oom: "refusals.lua", "state.lua", "write.lua", "erase.lua" => "erase");
pub(crate) static ERASE_IF: Lazy =
    script!(allow_oom: "refusals.lua", "state.lua", "write.lua", "erase.lua" => "erase_if");
pub(crate) static FENCE: Lazy =
    script!(allow_oom: "refusals.lua", "state.lua", "write.lua", "erase.lua" => "fence_absent");
pub(crate) static COUNT: Lazy = script!(allow_oom: "refusals.lua", "state.lua", "write.lua", "erase.lua" => "count");

pub(crate) static REGISTER: Lazy = script!("refusals.lua", "registry.lua", "register.lua" => "register");
pub(crate) static EPOCH: Lazy = script!(allow_oom: "refusals.lua", "registry.lua", "stamps.lua" => "epoch");
pub(crate) static STAMP: Lazy = script!(allow_oom: "refusals.lua", "registry.lua", "stamps.lua" => "take_stamp");
pub(crate) static BAR: Lazy = script!(allow_oom: "refusals.lua", "registry.lua", "stamps.lua" => "bar");
pub(crate) static NAMES: Lazy = script!(allow_oom: "refusals.lua", "registry.lua", "names.lua" => "read_names");
pub(crate) static FORGET: Lazy = script!(allow_oom: "refusals.lua", "registry.lua", "names.lua" => "forget");
pub(crate) static TOUCH: Lazy = script!(allow_oom: "refusals.lua", "registry.lua", "names.lua" => "touch");

/// The parts of a conversation's keys after the hash tag, in the order that the scripts use. The first four exist for
/// every conversation. The fifth exists if an exchange has recalled messages, and the sixth if one has a provenance.
/// The last one exists for an hour after a deletion.
const PARTS: [&str; 7] = ["", ":log", ":index", ":ids", ":recalled", ":provenances", ":gone"];

/// Returns the keys of one conversation.
///
/// The conversation's id is their hash tag, so a Cluster keeps them in one slot. Prefixes and ids contain no braces,
/// because an id's text is percent-encoded. The hash tag is therefore always the whole id, and no two conversations
/// share a key.
pub(crate) fn keys_of(prefix: &str, id: &ConversationId) -> Vec<String> {
    let shared = [prefix, "{", id.as_str(), "}"].concat();
    PARTS.iter().map(|part| [&shared, *part].concat()).collect()
}

/// Returns the keys of exchanges that a fork of this name has staged for the copy with this id. They are in the slot of
/// the copy.
pub(crate) fn staged_keys(prefix: &str, id: &ConversationId, name: &str) -> Vec<String> {
    let shared = [prefix, "{", id.as_str(), "}:fork:", name].concat();
    PARTS.iter().take(6).map(|part| [&shared, *part].concat()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_tag_is_the_whole_id() {
        for parts in [["a"].as_slice(), &["a", "b/c"], &["{", "}"], &["a}:log", "{b}"], &["ä", "\0", ":ids"]] {
            let id = ConversationId::new(parts).unwrap();
            for key in keys_of("chat:", &id) {
                let (_, tail) = key.split_once('{').unwrap();
                assert_eq!(tail.split_once('}').unwrap().0, id.as_str());
            }
        }
    }
}
