//! Escapes that keep stored text between the tags.

use super::TAG;

/// Escapes JSON so that no tag can begin or end in it: `</` is written `<\/`, and the `<` of an opening tag as
/// `\u003c`, in any case of letters.
///
/// `<` is only in strings, where JSON allows both. A string that ends with `<` is followed by a quotation mark.
pub(super) fn without_tags(json: &str) -> String {
    let mut out = String::with_capacity(json.len() + 16);
    let mut rest = json;
    while let Some(at) = rest.find('<') {
        let (before, from) = rest.split_at(at);
        let after = &from[1..];
        out.push_str(before);
        out.push_str(if begins_with_tag(after) { "\\u003c" } else { "<" });
        rest = match after.strip_prefix('/') {
            Some(after) => {
                out.push_str("\\/");
                after
            }
            None => after,
        };
    }
    out.push_str(rest);
    out
}

fn begins_with_tag(text: &str) -> bool {
    text.get(..TAG.len()).is_some_and(|start| start.eq_ignore_ascii_case(TAG))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_escaped_and_other_text_is_not() {
        for (json, escaped) in [
            (r#""a < b <div> <br/>""#, r#""a < b <div> <br/>""#),
            (r#""</div></EARLIER_messages>""#, r#""<\/div><\/EARLIER_messages>""#),
            (r#""<earlier_messages><Earlier_Messages ""#, r#""\u003cearlier_messages>\u003cEarlier_Messages ""#),
            (r#""<<//""#, r#""<<\//""#),
        ] {
            assert_eq!(without_tags(json), escaped);
            let text = |json: &str| serde_json::from_str::<String>(json).unwrap();
            assert_eq!(text(json), text(escaped));
        }
    }
}
