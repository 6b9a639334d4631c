//! Rewriting the compactions of a conversation.

use tokio_postgres::types::ToSql;
use tower_chat_history_core::{Compact, Compaction, Incarnation, Profile};

use super::compact::CutParameters;
use crate::{
    database::{Call, Lease},
    error::Failure,
    rows::{self, Log, stored, uuid},
};

/// Replaces the compaction of each profile by the result of `stays`, or removes it. A compaction that cannot be read is
/// removed.
pub(super) async fn rewrite(
    call: &Call,
    transaction: &mut Lease,
    log: &Log,
    stays: impl Fn(&Compaction) -> Option<Compaction> + Send,
) -> Result<(), Failure> {
    for row in transaction.query(&call.sql.compactions, &[&log.id]).await? {
        let (name, version, body): (String, i64, String) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let version = rows::compaction_version(version);
        let stored = version.and_then(|version| Compaction::decode(version, &body).ok());
        match (stored.as_ref().and_then(&stays), Profile::new(&name)) {
            (Some(compaction), Ok(profile)) => replace(call, transaction, log, profile, compaction).await?,
            _ => {
                transaction.query(&call.sql.change.remove_compaction, &[&log.id, &name]).await?;
            }
        }
    }
    Ok(())
}

async fn replace(
    call: &Call,
    transaction: &mut Lease,
    log: &Log,
    profile: Profile,
    compaction: Compaction,
) -> Result<(), Failure> {
    let version = stored(compaction.version.get());
    let compact =
        Compact::new(profile, compaction.version, compaction.cut).replacing(compaction.replaced.map(|cut| *cut));
    let cut = CutParameters::new(&compact)?;
    // This name belongs to no call. The call that stored the old compaction did not store this one.
    let name = uuid(Incarnation::random());
    let profile = compact.profile.as_str();
    let parameters: [&(dyn ToSql + Sync); 12] = [
        &log.id,
        &profile,
        &version,
        &cut.window,
        &cut.rounds,
        &cut.cleared,
        &cut.recalled_from,
        &cut.reasoning_from,
        &cut.encrypted_from,
        &cut.covers,
        &name,
        &cut.body,
    ];
    transaction.query(&call.sql.change.set_compaction, &parameters).await?;
    Ok(())
}
