//! The providers that can read each other's reasoning.

use crate::provenance::Origin;

/// Returns `true` if `reader` can read what `made_by` sealed.
///
/// An unknown value is taken for the same as any other: a program that never names its provider calls the same one
/// most of the time, and a required field that is left out is refused as surely as a foreign one.
pub(super) fn reads(made_by: &Origin, reader: &Origin) -> bool {
    agree(made_by.provider.as_deref(), reader.provider.as_deref())
        && agree(made_by.route.as_deref(), reader.route.as_deref())
        && agree(made_by.account.as_deref(), reader.account.as_deref())
        && agree(made_by.model.as_deref().and_then(vendor), reader.model.as_deref().and_then(vendor))
}

fn agree(one: Option<&str>, other: Option<&str>) -> bool {
    one.zip(other).is_none_or(|(one, other)| one == other)
}

/// Returns the vendor in the name of a gateway's model: `anthropic` for `anthropic/claude-sonnet-4.5`.
fn vendor(model: &str) -> Option<&str> {
    model.split_once('/').map(|(vendor, _)| vendor.trim_start_matches('~'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin() -> Origin {
        Origin::unknown().provider("p").route("r").account("a").model("v/m")
    }

    #[test]
    fn another_provider_route_account_or_vendor_cannot_read_it() {
        assert!(reads(&origin(), &origin()));
        assert!(reads(&origin(), &origin().model("~v/other")));
        for other in [origin().provider("q"), origin().route("s"), origin().account("b"), origin().model("w/m")] {
            assert!(!reads(&origin(), &other) && !reads(&other, &origin()), "{other:?}");
        }
    }

    #[test]
    fn an_unknown_value_is_the_same_as_any_other() {
        let unknown = Origin::unknown();
        assert!(reads(&unknown, &unknown) && reads(&origin(), &unknown) && reads(&unknown, &origin()));
        assert!(reads(&Origin::unknown().provider("p"), &origin()));
        assert!(reads(&origin(), &Origin::unknown().model("m")), "a model without a vendor");
    }
}
