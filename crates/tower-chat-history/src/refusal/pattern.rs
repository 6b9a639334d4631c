//! Wordings: texts with holes, which are matched against the beginning of a message.
//!
//! | hole | stands for |
//! |---|---|
//! | `{limit}`, `{prompt}` | a number, which is kept |
//! | `{n}` | any other number |
//! | `{path}` | the path of a field of a message, such as `messages[2].tool_calls[0].id`, which is kept |
//! | `{name}` | a name without spaces, such as one of a field or a model, which is kept |
//! | `{any}` | a short text up to the text that follows the hole |
//!
//! Letters may be of either case. The work is bounded: nothing is tried twice.

/// The longest text that a hole stands for, in bytes.
const MAX_HOLE: usize = 500;

/// The parts of a message that a wording's holes stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Match<'a> {
    pub(super) limit: Option<u64>,
    pub(super) prompt: Option<u64>,
    pub(super) path: Option<&'a str>,
    pub(super) name: Option<&'a str>,
    /// The text after the wording.
    pub(super) rest: &'a str,
}

impl<'a> Match<'a> {
    /// Matches the beginning of a message.
    pub(super) fn new(message: &'a str, wording: &str) -> Option<Self> {
        let mut found = Self { rest: message, ..Self::default() };
        let mut wording = wording;
        while let Some((literal, after)) = wording.split_once('{') {
            let (hole, next) = after.split_once('}')?;
            found.rest = strip(found.rest, literal)?;
            found.fill(hole, next)?;
            wording = next;
        }
        found.rest = strip(found.rest, wording)?;
        Some(found)
    }

    /// Takes the text that a hole stands for. `next` is the wording after it.
    fn fill(&mut self, hole: &str, next: &str) -> Option<()> {
        match hole {
            "limit" => self.limit = number(&self.take_digits()?),
            "prompt" => self.prompt = number(&self.take_digits()?),
            "n" => {
                self.take_digits()?;
            }
            "path" => {
                let path = self.take(is_of_path)?;
                let is_message = path.split(['.', '[']).any(|part| part == "messages" || part == "input");
                if !is_message {
                    return None;
                }
                self.path = Some(path);
            }
            "name" => self.name = Some(self.take(is_of_name)?),
            _ => {
                let literal = next.split('{').next().unwrap_or(next);
                let length = beginning(self.rest, MAX_HOLE).find(literal)?;
                self.rest = self.rest.get(length..)?;
            }
        }
        Some(())
    }

    /// Takes digits, which commas may separate. Returns the digits.
    fn take_digits(&mut self) -> Option<String> {
        let bytes = beginning(self.rest, MAX_HOLE).as_bytes();
        let mut length = 0;
        let mut digits = String::new();
        while let Some(&byte) = bytes.get(length) {
            let separates = byte == b',' && bytes.get(length + 1).is_some_and(u8::is_ascii_digit);
            if byte.is_ascii_digit() {
                digits.push(char::from(byte));
            } else if !separates || length == 0 {
                break;
            }
            length += 1;
        }
        if length == 0 {
            return None;
        }

        self.rest = self.rest.get(length..)?;
        Some(digits)
    }

    /// Takes at least one character of a kind.
    fn take(&mut self, kind: fn(char) -> bool) -> Option<&'a str> {
        let rest = beginning(self.rest, MAX_HOLE);
        let length = rest.find(|character| !kind(character)).unwrap_or(rest.len());
        if length == 0 {
            return None;
        }

        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }
}

/// Returns the number of at most 12 digits.
fn number(digits: &str) -> Option<u64> {
    if digits.len() <= 12 { digits.parse().ok() } else { None }
}

/// Returns the first bytes of a text, fewer if they would end inside a character.
pub(super) fn beginning(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// Strips text that may be of another case.
pub(super) fn strip<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let (beginning, rest) = text.split_at_checked(prefix.len())?;
    beginning.eq_ignore_ascii_case(prefix).then_some(rest)
}

fn is_of_path(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '.' | '_' | '-' | '[' | ']')
}

fn is_of_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '.' | '_' | '-' | '/' | ':')
}
