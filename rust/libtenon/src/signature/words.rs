//! Reads names, numbers, strings and dtypes.

use super::Span;
use crate::dtype::Dtype;

/// Whether this part of the text is the name.
pub const fn name_at(text: &str, span: Span, name: &str) -> bool {
    let (text, name) = (text.as_bytes(), name.as_bytes());
    if span.length != name.len() {
        return false;
    }
    let mut i = 0;
    while i < span.length {
        if text[span.start + i] != name[i] {
            return false;
        }
        i += 1;
    }
    true
}

pub const fn is_word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_'
}

/// The text of a signature, and a position in it.
pub struct Reader {
    pub text: &'static str,
    pub at: usize,
    pub mistake: &'static str,
    pub position: usize,
}

impl Reader {
    pub const fn new(text: &'static str) -> Reader {
        Reader { text, at: 0, mistake: "", position: 0 }
    }

    /// Keeps the first mistake. Returns false.
    pub const fn fail(&mut self, position: usize, mistake: &'static str) -> bool {
        if self.mistake.is_empty() {
            self.mistake = mistake;
            self.position = position;
        }
        false
    }

    pub const fn peek(&self, ahead: usize) -> u8 {
        let bytes = self.text.as_bytes();
        if self.at + ahead < bytes.len() { bytes[self.at + ahead] } else { 0 }
    }

    pub const fn skip_spaces(&mut self) {
        while matches!(self.peek(0), b' ' | b'\t' | b'\n') {
            self.at += 1;
        }
    }

    pub const fn accept(&mut self, wanted: u8) -> bool {
        self.skip_spaces();
        let found = self.peek(0) == wanted;
        if found {
            self.at += 1;
        }
        found
    }

    pub const fn expect(&mut self, wanted: u8, mistake: &'static str) -> bool {
        self.accept(wanted) || self.fail(self.at, mistake)
    }

    pub const fn peek_word(&mut self) -> Span {
        self.skip_spaces();
        let mut length = 0;
        while is_word(self.peek(length)) {
            length += 1;
        }
        Span { start: self.at, length }
    }

    pub const fn next_word(&mut self) -> Span {
        let word = self.peek_word();
        self.at += word.length;
        word
    }

    pub const fn is(&self, word: Span, name: &str) -> bool {
        name_at(self.text, word, name)
    }

    pub const fn byte(&self, at: usize) -> u8 {
        let bytes = self.text.as_bytes();
        if at < bytes.len() { bytes[at] } else { 0 }
    }

    /// The first character after the word that is not a space.
    pub const fn after(&self, word: Span) -> u8 {
        let mut end = word.start + word.length;
        while matches!(self.byte(end), b' ' | b'\t' | b'\n') {
            end += 1;
        }
        self.byte(end)
    }

    pub const fn is_upper(&self, word: Span) -> bool {
        word.length > 0 && self.byte(word.start).is_ascii_uppercase()
    }

    /// A string in quotes, without them.
    pub const fn quoted(&mut self, out: &mut Span) -> bool {
        self.skip_spaces();
        let quote = self.peek(0);
        if quote != b'\'' && quote != b'"' {
            return self.fail(self.at, "expected a string in quotes");
        }
        let mut end = self.at + 1;
        while self.byte(end) != quote {
            if self.byte(end) < b' ' {
                return self.fail(self.at, "the string has no end");
            }
            end += 1;
        }
        *out = Span { start: self.at + 1, length: end - self.at - 1 };
        self.at = end + 1;
        true
    }

    pub const fn same_text(&self, a: Span, b: Span) -> bool {
        if a.length != b.length {
            return false;
        }
        let mut i = 0;
        while i < a.length {
            if self.byte(a.start + i) != self.byte(b.start + i) {
                return false;
            }
            i += 1;
        }
        true
    }

    /// The dtype with this name. One that has no element type in this crate has the code 255.
    pub const fn dtype(&self, word: Span) -> Option<Dtype> {
        if self.is(word, "bool") {
            return Some(Dtype::new(6, 8));
        }
        let mut letters = 0;
        while letters < word.length && self.byte(word.start + letters).is_ascii_lowercase() {
            letters += 1;
        }
        let (mut end, mut bits) = (letters, 0u32);
        while end < word.length && self.byte(word.start + end).is_ascii_digit() && end < letters + 3 {
            bits = bits * 10 + (self.byte(word.start + end) - b'0') as u32;
            end += 1;
        }
        let prefix = Span { start: word.start, length: letters };
        let code = if self.is(prefix, "i") || self.is(prefix, "int") {
            0
        } else if self.is(prefix, "u") || self.is(prefix, "uint") {
            1
        } else if self.is(prefix, "f") || self.is(prefix, "float") {
            2
        } else if self.is(prefix, "bf") || self.is(prefix, "bfloat") {
            4
        } else if self.is(prefix, "c") || self.is(prefix, "complex") {
            5
        } else if self.is(prefix, "opaque") {
            255
        } else {
            return None;
        };
        if end == letters || !matches!(bits, 1 | 2 | 4 | 6 | 8 | 16 | 32 | 64 | 128) {
            return None;
        }
        if end < word.length {
            let next = self.byte(word.start + end);
            return if next == b'_' || next == b'x' { Some(Dtype::new(255, bits as u8)) } else { None };
        }
        Some(Dtype::new(code, bits as u8))
    }
}
