//! The scripts that the server runs. Each is one atomic step.

use std::sync::LazyLock;

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

macro_rules! script {
    ($($file:literal),+) => {
        LazyLock::new(|| Script::new(concat!($(include_str!($file)),+)))
    };
}

pub(crate) static LOAD: LazyLock<Script> = script!(
    "master.lua",
    "state.lua",
    "recalled.lua",
    "shown.lua",
    "provenance.lua",
    "large.lua",
    "load.lua",
    "log.lua",
    "fitting.lua",
    "compaction.lua",
    "window.lua"
);
pub(crate) static READ: LazyLock<Script> = script!(
    "master.lua",
    "state.lua",
    "recalled.lua",
    "shown.lua",
    "provenance.lua",
    "large.lua",
    "log.lua",
    "read.lua"
);
pub(crate) static APPEND: LazyLock<Script> = script!(
    "state.lua",
    "gone.lua",
    "recalled.lua",
    "log.lua",
    "rights.lua",
    "refused.lua",
    "write.lua",
    "compaction.lua",
    "expiry.lua",
    "append.lua"
);
/// Registers the conversation, then appends. Only a server that has the keys of all slots can run it.
pub(crate) static CREATE: LazyLock<Script> = script!(
    "registry.lua",
    "rights.lua",
    "refused.lua",
    "registration.lua",
    "state.lua",
    "gone.lua",
    "recalled.lua",
    "log.lua",
    "write.lua",
    "compaction.lua",
    "expiry.lua",
    "create.lua",
    "append.lua"
);
pub(crate) static FORK: LazyLock<Script> = script!(
    "state.lua",
    "gone.lua",
    "recalled.lua",
    "log.lua",
    "rights.lua",
    "refused.lua",
    "write.lua",
    "compaction.lua",
    "expiry.lua",
    "fork.lua"
);
pub(crate) static STAGE: LazyLock<Script> =
    script!("state.lua", "recalled.lua", "log.lua", "rights.lua", "refused.lua", "expiry.lua", "stage.lua");
pub(crate) static UNSTAGE: LazyLock<Script> = script!("unstage.lua");
pub(crate) static COMPACT: LazyLock<Script> =
    script!("state.lua", "compaction.lua", "rights.lua", "refused.lua", "compact.lua");
pub(crate) static TRUNCATE: LazyLock<Script> = script!(
    "state.lua",
    "recalled.lua",
    "log.lua",
    "rights.lua",
    "gone.lua",
    "write.lua",
    "compaction.lua",
    "rewrite.lua",
    "truncate.lua"
);
pub(crate) static PRUNE: LazyLock<Script> = script!(
    "state.lua",
    "recalled.lua",
    "log.lua",
    "fitting.lua",
    "rights.lua",
    "write.lua",
    "rewrite.lua",
    "prune.lua"
);
pub(crate) static SWEEP: LazyLock<Script> =
    script!("state.lua", "recalled.lua", "log.lua", "rights.lua", "write.lua", "sweep.lua");
pub(crate) static DESCRIBE: LazyLock<Script> = script!("master.lua", "state.lua", "log.lua", "describe.lua");
pub(crate) static LABEL: LazyLock<Script> = script!("state.lua", "rights.lua", "refused.lua", "label.lua");
pub(crate) static DELETE: LazyLock<Script> = script!("master.lua", "rights.lua", "gone.lua", "began.lua", "delete.lua");
pub(crate) static ERASE: LazyLock<Script> =
    script!("master.lua", "state.lua", "log.lua", "counted.lua", "rights.lua", "gone.lua", "began.lua", "erase.lua");
pub(crate) static ERASE_IF: LazyLock<Script> =
    script!("master.lua", "state.lua", "log.lua", "counted.lua", "rights.lua", "gone.lua", "erase_if.lua");
pub(crate) static FENCE: LazyLock<Script> = script!("master.lua", "rights.lua", "gone.lua", "fence.lua");
pub(crate) static COUNT: LazyLock<Script> = script!("master.lua", "state.lua", "log.lua", "counted.lua", "count.lua");

pub(crate) static REGISTER: LazyLock<Script> =
    script!("registry.lua", "rights.lua", "refused.lua", "registration.lua", "register.lua");
pub(crate) static EPOCH: LazyLock<Script> = script!("master.lua", "registry.lua", "epoch.lua");
pub(crate) static BAR: LazyLock<Script> = script!("master.lua", "registry.lua", "rights.lua", "bar.lua");
pub(crate) static STAMP: LazyLock<Script> = script!("master.lua", "registry.lua", "rights.lua", "stamp.lua");
pub(crate) static NAMES: LazyLock<Script> = script!("master.lua", "registry.lua", "rights.lua", "names.lua");
pub(crate) static FORGET: LazyLock<Script> = script!("master.lua", "registry.lua", "rights.lua", "forget.lua");
pub(crate) static TOUCH: LazyLock<Script> = script!("master.lua", "registry.lua", "rights.lua", "touch.lua");
