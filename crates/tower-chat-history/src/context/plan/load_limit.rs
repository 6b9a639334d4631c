//! The cut that results from a truncated load.

use tower_chat_history_core::{Cut, LoadLimit};

use super::{loaded::LoadedWindow, window_index::can_start_window};

/// Returns the cut that a truncated load causes, or `None` if the load is not truncated. The window then has at most
/// 75% of the load limit. Without this cut, the load limit itself would move the window's start with every turn, and
/// the provider's prefix cache would never have the window.
pub(super) fn cut_truncated(window: &LoadedWindow, limit: LoadLimit) -> Option<Cut> {
    if !window.truncated {
        return None;
    }
    let keep = (limit.messages() / 4 * 3, limit.bytes() / 4 * 3);
    let (mut messages, mut bytes, mut start) = (0, 0, None);
    for recorded in window.exchanges.iter().rev() {
        messages += recorded.exchange.counted_messages();
        bytes += recorded.exchange.bytes();
        // The newest turn stays whole, even if it is larger.
        if start.is_some() && (messages > keep.0 || bytes > keep.1) {
            break;
        }
        if can_start_window(recorded) {
            start = Some(recorded.seq);
        }
    }
    let mut cut = window.cut().cloned().unwrap_or_default();
    cut.window_start = cut.window_start.max(start?);
    cut.rounds_start = cut.rounds_start.max(cut.window_start);
    if window.exchanges.iter().any(|recorded| recorded.exchange.recalled.is_some()) {
        // The recalled messages of the newest turn stay, because this turn may still be under way.
        let newest = window.exchanges.iter().rev().find(|recorded| can_start_window(recorded));
        cut.recalled_from = newest.map_or(cut.recalled_from, |newest| cut.recalled_from.max(newest.seq));
    }
    Some(cut)
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::{Exchange, ExchangeId, Incarnation, Message, Recorded, Revision, Seq, Window};

    use super::*;

    #[test]
    fn exchanges_without_messages_count_as_one_message_each() {
        let exchange = |seq: u64| {
            let opens = [10, 14].contains(&seq).then(|| Message::user("u"));
            Recorded::new(Seq::new(seq), Exchange::new(ExchangeId::generate(), opens))
        };
        let exchanges = (10..20).map(exchange).collect();
        let window = Window::new(Revision::new(Incarnation::random(), 20), None, exchanges, true);
        let window = LoadedWindow::read(window).unwrap();
        let cut = cut_truncated(&window, LoadLimit::new(8, 1 << 20).unwrap()).unwrap();
        assert_eq!(cut.window_start, Seq::new(14), "six of eight stay");
    }
}
