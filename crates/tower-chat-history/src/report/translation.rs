//! The report of a translation.

use tower_chat_history_core::LeftOut;

/// The exchanges in a turn's prompt that are stored in another [dialect](crate::dialect) than that of the call, and were
/// translated ([`OnOtherDialect::Translate`](crate::policy::OnOtherDialect::Translate)). Exchanges that a cut or the
/// budget leaves out do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TranslationReport {
    /// The number of exchanges of which the prompt has a translated message.
    pub exchanges: usize,
    /// The parts that were left out of them, because only the other provider can use them, or because the dialect of
    /// the call has no form for them.
    pub left_out: LeftOut,
}
