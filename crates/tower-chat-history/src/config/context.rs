//! Checks of the options of prompts.

use tower_chat_history_context::budget::{Watermark, Watermarks};
use tower_chat_history_core::config::ConfigError;

use crate::options::ContextOptions;

/// Checks that no setting contradicts another one.
pub(super) fn check(context: &ContextOptions) -> Result<(), ConfigError> {
    context.budget.check().map_err(|error| error.within("budget"))?;
    check_watermarks(context).map_err(|error| error.within("watermarks"))
}

/// Checks that the watermarks are in order, and that a prompt or a window can exceed the high one.
fn check_watermarks(context: &ContextOptions) -> Result<(), ConfigError> {
    let default = Watermarks::default();
    let high = context.watermarks.high();
    let low = context.watermarks.low();

    // Each of them is valid by itself.
    if Watermarks::new(high, low).is_err() {
        let path = if low == default.low() { "high" } else { "low" };
        return Err(ConfigError::new(path, "the low watermark must not exceed the high one"));
    }

    if context.budget.is_unlimited() {
        let reason = "it has no effect: without a limit, there is no percentage of it";

        let is_high_percentage = matches!(high, Watermark::Percent(_)) && context.watermarks != default;
        let path = if high == default.high() { "low" } else { "high" };
        ConfigError::unless(!is_high_percentage, path, reason)?;

        let is_low_percentage = matches!(low, Watermark::Percent(_)) && low != default.low();
        ConfigError::unless(!is_low_percentage, "low", reason)?;
    }

    if let Watermark::Messages(number) | Watermark::Turns(number) = high {
        let most = context.load_limit.messages();
        let reason = format!("it can never be exceeded: a call loads at most {most} messages (`load_limit.messages`)");
        ConfigError::unless(number < most, "high", reason)?;
    }
    Ok(())
}
