//! The providers that can read each other's reasoning.

use crate::provenance::Origin;

/// Returns `true` if `reader` can read what `made_by` sealed.
///
/// An unknown value is taken for the same as any other: a program that never names its provider calls the same one
/// most of the time, and a required field that is left out is refused as surely as a foreign one.
pub(in crate::message::dialect) fn reads(made_by: &Origin, reader: &Origin) -> bool {
    agree(made_by.provider.as_deref(), reader.provider.as_deref())
        && agree(made_by.route.as_deref(), reader.route.as_deref())
        && agree(made_by.account.as_deref(), reader.account.as_deref())
        // Equal names have the same vendor.
        && (made_by.model == reader.model
            || agree(made_by.model.as_deref().and_then(vendor), reader.model.as_deref().and_then(vendor)))
}

fn agree(one: Option<&str>, other: Option<&str>) -> bool {
    one.zip(other).is_none_or(|(one, other)| one == other)
}

/// The first words of paths that name a model, such as `models/gemini-3-pro`. They are no vendors.
const PATHS: [&str; 7] = ["models", "tunedModels", "projects", "locations", "accounts", "deployments", "endpoints"];

/// Returns the vendor in the name of a gateway's model: `anthropic` for `anthropic/claude-sonnet-4.5`. In one of
/// Google's paths, it is the publisher: `google` for `publishers/google/models/gemini-3-pro`. Other paths have none.
fn vendor(model: &str) -> Option<&str> {
    let mut words = model.split('/');
    if words.by_ref().any(|word| word == "publishers") {
        return words.next();
    }
    let (first, _) = model.split_once('/')?;
    (!PATHS.contains(&first)).then(|| first.trim_start_matches('~'))
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
    fn words_of_a_path_are_no_vendors() {
        for model in ["models/gemini-3-pro", "tunedModels/mine", "accounts/a/models/m", "gemini-3-pro"] {
            assert_eq!(vendor(model), None, "{model}");
            assert!(reads(&origin().model(model), &origin().model("google/gemini-3-pro")), "{model}");
        }
        let whole = "projects/p/locations/global/publishers/google/models/gemini-3-pro";
        for model in [whole, "publishers/google/models/gemini-3-pro", "google/gemini-3-pro"] {
            assert_eq!(vendor(model), Some("google"), "{model}");
            assert!(!reads(&origin().model(model), &origin().model("publishers/anthropic/models/m")), "{model}");
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
