//! Sealed summaries. The positions of cuts stay visible, because stores compare them.

use tower_chat_history_core::{Compact, Compaction, Cut, Profile, StoreError, Summary};

use super::Opener;
use crate::{cipher::Cipher, error::OpenError, item::Item};

/// Seals the summaries of a compaction to store.
pub(crate) fn seal_compact(cipher: &Cipher, mut compact: Compact) -> Result<Compact, StoreError> {
    seal_cut(cipher, &compact.profile, &mut compact.cut)?;
    if let Some(replaced) = &mut compact.replaced {
        seal_cut(cipher, &compact.profile, replaced)?;
    }
    Ok(compact)
}

fn seal_cut(cipher: &Cipher, profile: &Profile, cut: &mut Cut) -> Result<(), StoreError> {
    let Some(summary) = &mut cut.summary else { return Ok(()) };
    let record = serde_json::to_vec(summary).map_err(StoreError::backend)?;
    let item = Item::Summary(profile.clone(), summary.covers_to);
    *summary = Summary::new(cipher.seal(&item, &record)?, summary.covers_to);
    Ok(())
}

/// Opens the summaries of a compaction that was read from a store.
pub(crate) async fn open_compaction(
    opener: &mut Opener<'_>,
    profile: &Profile,
    mut compaction: Compaction,
) -> Result<Compaction, OpenError> {
    open_cut(opener, profile, &mut compaction.cut).await?;
    if let Some(replaced) = &mut compaction.replaced {
        open_cut(opener, profile, replaced).await?;
    }
    Ok(compaction)
}

async fn open_cut(opener: &mut Opener<'_>, profile: &Profile, cut: &mut Cut) -> Result<(), OpenError> {
    let Some(summary) = &mut cut.summary else { return Ok(()) };
    let item = Item::Summary(profile.clone(), summary.covers_to);
    let (record, key) = opener.open_text(&item, &summary.text).await?;
    let opened: Option<Summary> = serde_json::from_str(&record).ok();
    match opened.filter(|opened| opened.covers_to == summary.covers_to) {
        Some(opened) => *summary = opened,
        None => return Err(OpenError::Mismatch { item, key }),
    }
    Ok(())
}
