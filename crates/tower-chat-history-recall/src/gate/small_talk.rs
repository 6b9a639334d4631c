//! Words of small talk, and questions.

/// Words that say little about a subject, in lower case: an input of only these recalls nothing.
pub(super) const SMALL_TALK: &str = "
    again agree agreed ah alright amazing anyway apologies appreciate awesome back bit brilliant bye care cheers chat
    clear come continue cool course correct day done enjoy evening everything exactly excellent fair fantastic fine first
    forget forward funny get glad go good goodbye gotcha got great guess haha happy hello help helpful hey hi hmm hold
    hope idea interesting keep know later let's let like look lol lot love lovely luck make makes maybe minute moment
    morning much need never new next nice night now ok okay one oops perfect please point quick ready really right say
    see sense set sleep soon sorry sounds start still sure take talk tell thank thanks thing think time today tomorrow
    tonight totally true try understand understood wait want way weekend well welcome whatever wonderful wow yeah yep
    yes yesterday";

/// Words that questions begin with, in several languages, as a list in JSON.
const QUESTION_WORDS: &str = include_str!("question_words.json");

/// Returns `true` if a text asks something: it has a question mark of any script, or begins with a question word.
pub(crate) fn asks(text: &str) -> bool {
    let mark = |c| matches!(c, '?' | '؟' | '？' | '՞' | ';' | '⁇' | '⁈' | '⁉' | '፧' | '꘏' | '︖' | '﹖');
    text.contains(mark) || begins_with_question_word(text)
}

fn begins_with_question_word(text: &str) -> bool {
    let text = text.trim_start_matches(|c: char| !c.is_alphanumeric());
    let apart = |c: char| !(c.is_alphanumeric() || matches!(c, '\'' | '’' | '-'));
    let first = text.split(apart).next().unwrap_or_default();
    // No question word is longer.
    if first.is_empty() || first.len() > 32 {
        return false;
    }
    let first = first.to_lowercase().replace('’', "'");
    // In the list, each word is between quotation marks.
    !first.contains('"') && QUESTION_WORDS.contains(&format!("\"{first}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_have_a_mark_or_begin_with_a_question_word() {
        for text in ["My dog?", "what is my name", " \"Who’s that", "Wo wohne ich", "我叫什么？", "ما اسمي؟", "Τι;"]
        {
            assert!(asks(text), "{text}");
        }
        for text in ["", "Thanks a lot!", "Whatever you say", "My name is Nemo."] {
            assert!(!asks(text), "{text}");
        }
    }
}
