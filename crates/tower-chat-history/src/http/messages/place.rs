//! Placing a mark for the cache in a message.

use tower_chat_history_core::json::{Object, range};

/// The kinds of blocks that can have a mark, as of November 2026. Thinking cannot.
const MARKABLE: [&str; 6] = ["text", "image", "document", "search_result", "tool_use", "tool_result"];

const MARK: &str = r#""cache_control":{"type":"ephemeral"}"#;

/// Returns the JSON of a message with a mark in its last block that can have one. A content that is a text becomes a
/// list of one block, which is the same to the API. Returns `None` if no block can have a mark.
pub(super) fn mark(json: &str) -> Option<String> {
    let message = Object::read(json)?;
    let content = message.get("content")?;
    if content.starts_with('"') {
        let place = range(json, content);
        let is_blank = message.text("content").is_none_or(|text| text.trim().is_empty());
        let block = format!(r#"[{{"type":"text","text":{content},{MARK}}}]"#);
        return (!is_blank).then(|| [&json[..place.start], &block, &json[place.end..]].concat());
    }
    let block = message.entries("content")?.into_iter().rfind(|block| can_have_mark(block))?;
    let end = range(json, block).end - 1;
    Some([&json[..end], ",", MARK, &json[end..]].concat())
}

/// Returns `true` for a block of a known kind that is not empty.
fn can_have_mark(block: &str) -> bool {
    let Some(block) = Object::read(block) else { return false };
    let kind = block.text("type").unwrap_or_default();
    let is_empty = kind == "text" && block.text("text").is_none_or(|text| text.trim().is_empty());
    let is_marked = block.written("cache_control").is_some();
    MARKABLE.contains(&&*kind) && !is_empty && !is_marked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_block_that_can_have_a_mark_gets_it() {
        let text = r#"{"type":"text","text":"a"}"#;
        let marked = r#"{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}"#;
        for after in [
            "",
            r#",{"type":"thinking","thinking":"","signature":"s"}"#,
            r#", {"type":"text","text":" \n"}"#,
            r#",{"type":"later"}"#,
            r#",{"type":"text","text":"b","cache_control":null}"#,
            ",7",
        ] {
            let json = format!(r#"{{"role":"assistant","content":[ {text} {after}],"x":1}}"#);
            assert_eq!(mark(&json), Some(json.replace(text, marked)), "{after}");
        }
        let call = r#"{"content":[{"type":"text","text":"a"},{ "type":"tool_use","id":"x","name":"f","input":{} }]}"#;
        let expected = call.replace("{} }", r#"{} ,"cache_control":{"type":"ephemeral"}}"#);
        assert_eq!(mark(call), Some(expected));
    }

    #[test]
    fn a_text_becomes_a_block() {
        let json = r#"{ "content" : "a\u0041" ,"role":"assistant"}"#;
        let block = r#"[{"type":"text","text":"a\u0041","cache_control":{"type":"ephemeral"}}]"#;
        assert_eq!(mark(json), Some(format!(r#"{{ "content" : {block} ,"role":"assistant"}}"#)));
    }

    #[test]
    fn a_message_without_a_block_that_can_have_one_has_no_mark() {
        for content in [
            r#""""#,
            r#"" ""#,
            "[]",
            "null",
            "7",
            r#"[{"type":"redacted_thinking","data":"d"}]"#,
            r#"[{"type":"text"}]"#,
        ] {
            assert_eq!(mark(&format!(r#"{{"role":"assistant","content":{content}}}"#)), None, "{content}");
        }
        assert_eq!(mark("7"), None);
    }
}
