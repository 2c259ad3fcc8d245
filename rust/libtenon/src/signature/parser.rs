//! The grammar of signatures: docs/signatures.md.

use super::words::Reader;
use super::{Kind, MAX_PARAMETERS, MAX_RESULTS, MAX_VARIABLES, Memory, Signature, Slot, Span};
use crate::dtype::Dtype;

struct Parser {
    r: Reader,
    out: Signature,
}

pub(crate) const fn parse(text: &'static str) -> Signature {
    let mut p = Parser {
        r: Reader::new(text),
        out: Signature {
            mistake: "",
            position: 0,
            name: Span::EMPTY,
            class: Span::EMPTY,
            method: false,
            arrow: false,
            nparams: 0,
            nresults: 0,
            nvariables: 0,
            params: [Slot::EMPTY; MAX_PARAMETERS],
            results: [Slot::EMPTY; MAX_RESULTS],
            variables: [Span::EMPTY; MAX_VARIABLES],
        },
    };
    p.all();
    p.out.mistake = p.r.mistake;
    p.out.position = p.r.position;
    p.out
}

impl Parser {
    const fn all(&mut self) -> bool {
        if !self.head() {
            return false;
        }
        if self.out.class.length > 0 && self.r.accept(b':') {
            return self.property();
        }
        if !self.parameters() || !self.results() || !self.where_clause() {
            return false;
        }
        self.r.skip_spaces();
        self.r.peek(0) == 0 || self.r.fail(self.r.at, "expected the end of the signature")
    }

    const fn head(&mut self) -> bool {
        if self.r.peek(0) == b'(' {
            return true; // the signature of a callable has no name
        }
        let word = self.r.next_word();
        if word.length == 0 || self.r.byte(word.start).is_ascii_digit() {
            return self.r.fail(word.start, "expected the name of the function");
        }
        self.out.name = word;
        if self.r.accept(b'.') {
            self.out.class = word;
            self.out.name = self.r.next_word();
            if self.out.name.length == 0 {
                return self.r.fail(self.out.name.start, "expected the name of the method");
            }
        }
        true
    }

    /// "Name.size: int": a function of the object with one result.
    const fn property(&mut self) -> bool {
        self.out.method = true;
        self.out.arrow = true;
        self.set_self(self.out.class);
        let mut slot = Slot::EMPTY;
        if !self.slot(&mut slot, true) {
            return false;
        }
        self.out.results[0] = slot;
        self.out.nresults = 1;
        self.r.skip_spaces();
        self.r.peek(0) == 0 || self.r.fail(self.r.at, "expected the end of the property")
    }

    /// Parameter 0 is the object.
    const fn set_self(&mut self, word: Span) {
        let slot = &mut self.out.params[0];
        slot.kind = Kind::Handle;
        slot.name = word;
        slot.text = word;
        slot.class = self.out.class;
        self.out.nparams = 1;
    }

    const fn parameters(&mut self) -> bool {
        if !self.r.expect(b'(', "expected '('") {
            return false;
        }
        if self.out.class.length > 0 {
            let word = self.r.peek_word();
            if self.r.is(word, "self") && self.r.after(word) != b':' {
                self.r.next_word();
                self.out.method = true;
                self.set_self(word);
                if !self.r.accept(b',') {
                    return self.r.expect(b')', "expected ',' or ')'");
                }
            }
        }
        if self.r.accept(b')') {
            return true;
        }
        loop {
            if self.r.accept(b'*') && !self.r.expect(b',', "expected ',' after '*'") {
                return false;
            }
            if !self.parameter() {
                return false;
            }
            if !self.r.accept(b',') {
                return self.r.expect(b')', "expected ',' or ')'");
            }
        }
    }

    const fn parameter(&mut self) -> bool {
        let name = self.r.next_word();
        if name.length == 0 {
            return self.r.fail(name.start, "expected the name of a parameter");
        }
        if !self.r.expect(b':', "expected ':' and a type") {
            return false;
        }
        let mut i = 0;
        while i < self.out.nparams {
            if self.r.same_text(self.out.params[i].name, name) {
                return self.r.fail(name.start, "this name is used twice");
            }
            i += 1;
        }
        if self.out.nparams == MAX_PARAMETERS {
            return self.r.fail(name.start, "a function in Rust has at most 32 parameters");
        }
        let mut slot = Slot::EMPTY;
        slot.name = name;
        if !self.slot(&mut slot, false) {
            return false;
        }
        self.out.params[self.out.nparams] = slot;
        self.out.nparams += 1;
        !self.r.accept(b'=') || self.default()
    }

    /// The host checks defaults: they are skipped.
    const fn default(&mut self) -> bool {
        self.r.skip_spaces();
        let mut depth = 0;
        loop {
            match self.r.peek(0) {
                0 => return self.r.fail(self.r.at, "expected ')'"),
                b'\'' | b'"' => {
                    let mut text = Span::EMPTY;
                    if !self.r.quoted(&mut text) {
                        return false;
                    }
                    continue;
                }
                b'(' | b'[' => depth += 1,
                b')' if depth == 0 => return true,
                b',' if depth == 0 => return true,
                b')' | b']' => depth -= 1,
                _ => {}
            }
            self.r.at += 1;
        }
    }

    const fn results(&mut self) -> bool {
        self.r.skip_spaces();
        if self.r.peek(0) != b'-' {
            return true;
        }
        if self.r.peek(1) != b'>' {
            return self.r.fail(self.r.at, "expected '->'");
        }
        self.r.at += 2;
        self.out.arrow = true;
        loop {
            let word = self.r.peek_word();
            let mut slot = Slot::EMPTY;
            if word.length > 0 && self.r.after(word) == b':' {
                self.r.next_word();
                self.r.accept(b':');
                slot.name = word;
            }
            if self.out.nresults == MAX_RESULTS {
                return self.r.fail(word.start, "a function has at most 16 results");
            }
            if !self.slot(&mut slot, true) {
                return false;
            }
            self.out.results[self.out.nresults] = slot;
            self.out.nresults += 1;
            if !self.r.accept(b',') {
                return true;
            }
        }
    }

    const fn slot(&mut self, slot: &mut Slot, result: bool) -> bool {
        self.r.skip_spaces();
        let start = self.r.at;
        if !self.kind(slot, result) {
            return false;
        }
        let mut end = self.r.at;
        while end > start && matches!(self.r.byte(end - 1), b' ' | b'\t' | b'\n') {
            end -= 1;
        }
        slot.text = Span { start, length: end - start };
        true
    }

    const fn kind(&mut self, slot: &mut Slot, result: bool) -> bool {
        let word = self.r.peek_word();
        let first = self.r.peek(0);
        if first == b'[' {
            return self.list(slot, result);
        }
        if first == b'\'' || first == b'"' {
            return self.choices(slot);
        }
        if first == b'-' || first.is_ascii_digit() {
            return self.numbers(slot);
        }
        let next = self.r.after(word);
        slot.kind = self.simple(word);
        let list = matches!(slot.kind, Kind::Ints | Kind::Floats);
        if matches!(slot.kind, Kind::None) || (!list && (next == b'[' || next == b'|')) {
            slot.kind = Kind::Tensor;
            return self.tensor(slot, result);
        }
        self.r.next_word();
        if matches!(slot.kind, Kind::Handle | Kind::Callable) {
            if !self.r.expect(b'(', "expected '('") || !self.r.quoted(&mut slot.class) {
                return false;
            }
            if !self.r.expect(b')', "expected ')'") {
                return false;
            }
        } else if matches!(slot.kind, Kind::Dtype) && self.r.accept(b'(') {
            let variable = self.r.next_word();
            slot.variable = self.variable(variable);
            if slot.variable < 0 || !self.r.expect(b')', "expected ')'") {
                return self.r.fail(variable.start, "expected a dtype variable");
            }
        } else if list && self.r.accept(b'[') {
            let number = self.r.next_word();
            let mut i = 0;
            while i < number.length {
                let digit = self.r.byte(number.start + i);
                if !digit.is_ascii_digit() || i > 4 {
                    return self.r.fail(number.start, "expected a number");
                }
                slot.length = slot.length * 10 + (digit - b'0') as usize;
                i += 1;
            }
            if !self.r.expect(b']', "expected ']'") {
                return false;
            }
        }
        slot.optional = self.r.accept(b'?');
        true
    }

    const fn simple(&self, word: Span) -> Kind {
        const NAMES: [(&str, Kind); 13] = [
            ("int", Kind::Int),
            ("float", Kind::Float),
            ("bool", Kind::Bool),
            ("str", Kind::Str),
            ("ints", Kind::Ints),
            ("floats", Kind::Floats),
            ("handle", Kind::Handle),
            ("uint", Kind::Uint),
            ("complex", Kind::Complex),
            ("bytes", Kind::Bytes),
            ("strs", Kind::Strs),
            ("dtype", Kind::Dtype),
            ("callable", Kind::Callable),
        ];
        let mut i = 0;
        while i < NAMES.len() {
            if self.r.is(word, NAMES[i].0) {
                return NAMES[i].1;
            }
            i += 1;
        }
        Kind::None
    }

    const fn choices(&mut self, slot: &mut Slot) -> bool {
        slot.kind = Kind::Enum;
        slot.choices_at = self.r.at;
        let mut text = Span::EMPTY;
        loop {
            if !self.r.quoted(&mut text) {
                return false;
            }
            slot.choices += 1;
            if !self.r.accept(b'|') {
                slot.optional = self.r.accept(b'?');
                return true;
            }
        }
    }

    /// A choice of integers.
    const fn numbers(&mut self, slot: &mut Slot) -> bool {
        slot.kind = Kind::Int;
        loop {
            self.r.accept(b'-');
            let number = self.r.next_word();
            if number.length == 0 || !self.r.byte(number.start).is_ascii_digit() {
                return self.r.fail(number.start, "expected a number");
            }
            slot.choices += 1;
            if !self.r.accept(b'|') {
                slot.optional = self.r.accept(b'?');
                return slot.choices > 1 || self.r.fail(number.start, "expected '|' and another number");
            }
        }
    }

    const fn list(&mut self, slot: &mut Slot, result: bool) -> bool {
        self.r.accept(b'[');
        if !self.tensor(slot, result) {
            return false;
        }
        slot.kind = Kind::Tensors;
        if !self.r.expect(b']', "expected ']'") {
            return false;
        }
        if !result {
            slot.optional = self.r.accept(b'?');
            return true;
        }
        slot.open = true;
        let word = self.r.peek_word();
        if self.r.is(word, "for") {
            self.r.next_word();
            self.r.next_word();
            slot.each = true;
            slot.open = false;
        }
        true
    }

    const fn tensor(&mut self, slot: &mut Slot, result: bool) -> bool {
        let first = self.r.peek_word();
        if self.r.is_upper(first) {
            self.r.next_word();
            slot.variable = self.variable(first);
            if slot.variable < 0 {
                return self.r.fail(first.start, "a function has at most 8 dtype variables");
            }
        } else {
            let mut count = 0;
            loop {
                let word = self.r.next_word();
                let group = self.r.is(word, "real") || self.r.is(word, "integer") || self.r.is(word, "any");
                match self.r.dtype(word) {
                    Some(dtype) => slot.dtype = dtype,
                    None if group => count += 1,
                    None => return self.r.fail(word.start, "expected a type"),
                }
                count += 1;
                if !self.r.accept(b'|') {
                    break;
                }
            }
            if count > 1 {
                slot.dtype = Dtype::NONE;
            }
        }
        if !self.r.expect(b'[', "expected '[' and the dimensions") || !self.dimensions(slot, result) {
            return false;
        }
        slot.optional = self.r.accept(b'?');
        slot.contiguous = result;
        slot.open |= result && slot.optional;
        self.attributes(slot, result)
    }

    const fn dimensions(&mut self, slot: &mut Slot, result: bool) -> bool {
        if self.r.accept(b']') {
            return true;
        }
        let (mut depth, mut starred, mut empty) = (0, false, true);
        loop {
            self.r.skip_spaces();
            let c = self.r.peek(0);
            match c {
                0 => return self.r.fail(self.r.at, "expected ']'"),
                b'(' => depth += 1,
                b')' => depth -= 1,
                b'?' if result => slot.open = true,
                b'*' if empty => {
                    starred = true;
                    slot.batch |= self.r.peek(1) == b'*';
                }
                b',' | b']' if depth == 0 => {
                    if empty {
                        return self.r.fail(self.r.at, "expected a dimension");
                    }
                    slot.rank += 1;
                    empty = true;
                    self.r.at += 1;
                    if c == b']' {
                        break;
                    }
                    continue;
                }
                b'+' | b'-' | b'*' | b'/' | b'_' => {}
                _ if c.is_ascii_lowercase() || c.is_ascii_digit() || c.is_ascii_uppercase() => {}
                _ => return self.r.fail(self.r.at, "expected a dimension"),
            }
            empty = false;
            self.r.at += 1;
        }
        if slot.batch {
            slot.rank -= 1;
        } else if starred {
            slot.rank = -1;
        }
        true
    }

    /// An attribute in parentheses.
    const fn argument(&mut self, out: &mut Span) -> bool {
        if !self.r.expect(b'(', "expected '('") {
            return false;
        }
        *out = self.r.next_word();
        (out.length > 0 || self.r.fail(out.start, "expected a name")) && self.r.expect(b')', "expected ')'")
    }

    const fn attributes(&mut self, slot: &mut Slot, result: bool) -> bool {
        let mut inside = Span::EMPTY;
        loop {
            let word = self.r.peek_word();
            if word.length == 0 || self.r.is(word, "where") || self.r.is(word, "for") {
                return true;
            }
            self.r.next_word();
            if self.r.is(word, "rw") {
                slot.written = true;
            } else if self.r.is(word, "c") || self.r.is(word, "f") || self.r.is(word, "dense") {
                slot.contiguous = true;
            } else if self.r.is(word, "unaligned") {
                slot.unaligned = true;
            } else if self.r.is(word, "alias") {
                slot.alias = true;
            } else if self.r.is(word, "keep") && !result {
                slot.keep = true;
            } else if self.r.is(word, "convert") && !result {
                // The host converts: the function gets what the signature says.
            } else if self.r.is(word, "own") && result {
                slot.memory = Memory::Own;
                slot.open = true;
            } else if self.r.is(word, "of") && result {
                if !self.argument(&mut inside) {
                    return false;
                }
                slot.memory = if self.r.is(inside, "self") && self.out.method {
                    Memory::OfSelf
                } else {
                    Memory::OfArgument
                };
                slot.open = true;
            } else if self.r.is(word, "aligned") {
                if !self.argument(&mut inside) {
                    return false;
                }
            } else if self.r.is(word, "inplace") {
                if !self.argument(&mut slot.inplace) {
                    return false;
                }
            } else if !self.device(word, slot) {
                return self.r.fail(word.start, "unknown attribute");
            }
        }
    }

    const fn device(&mut self, first: Span, slot: &mut Slot) -> bool {
        if self.r.is(first, "anywhere") {
            slot.device = true;
            return true;
        }
        const NAMES: [&str; 15] = [
            "cpu",
            "cuda",
            "cuda_host",
            "opencl",
            "vulkan",
            "metal",
            "vpi",
            "rocm",
            "rocm_host",
            "ext_dev",
            "cuda_managed",
            "oneapi",
            "webgpu",
            "hexagon",
            "maia",
        ];
        let mut word = first;
        loop {
            let (mut i, mut known) = (0, self.r.is(word, "trainium"));
            while i < NAMES.len() {
                known |= self.r.is(word, NAMES[i]);
                i += 1;
            }
            if !known {
                return false;
            }
            slot.device |= !self.r.is(word, "cpu");
            if !self.r.accept(b'|') {
                return true;
            }
            word = self.r.next_word();
        }
    }

    /// The index of a dtype variable, which may be new; -1 if there are too many.
    const fn variable(&mut self, word: Span) -> i32 {
        let mut i = 0;
        while i < self.out.nvariables {
            if self.r.same_text(self.out.variables[i], word) {
                return i as i32;
            }
            i += 1;
        }
        if i == MAX_VARIABLES || !self.r.is_upper(word) {
            return -1;
        }
        self.out.variables[i] = word;
        self.out.nvariables += 1;
        i as i32
    }

    /// The host checks the clauses. Each ends at a comma.
    const fn where_clause(&mut self) -> bool {
        let word = self.r.peek_word();
        if !self.r.is(word, "where") {
            return true;
        }
        self.r.at = self.r.text.len();
        true
    }
}
