//! Reads tokens.

use proc_macro::{Delimiter, Group, Literal, Span, TokenStream, TokenTree};

/// A position in a sequence of tokens.
pub struct Cursor {
    tokens: Vec<TokenTree>,
    at: usize,
}

impl Cursor {
    pub fn new(tokens: TokenStream) -> Cursor {
        Cursor { tokens: tokens.into_iter().collect(), at: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.at >= self.tokens.len()
    }

    pub fn peek(&self) -> Option<&TokenTree> {
        self.tokens.get(self.at)
    }

    pub fn next(&mut self) -> Option<TokenTree> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }

    pub fn rest(&mut self) -> TokenStream {
        self.tokens.drain(self.at.min(self.tokens.len())..).collect()
    }

    pub fn is_next_ident(&self, name: &str) -> bool {
        self.peek().is_some_and(|token| is_ident(token, name))
    }

    pub fn is_next_punct(&self, wanted: char) -> bool {
        self.peek().is_some_and(|token| is_punct(token, wanted))
    }

    /// The tokens before the next braces.
    pub fn until_brace(&mut self) -> TokenStream {
        let mut out = TokenStream::new();
        while let Some(token) = self.peek() {
            if matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace) {
                break;
            }
            out.extend(self.next());
        }
        out
    }

    /// `<…>`, or nothing.
    pub fn generics(&mut self) -> TokenStream {
        let mut out = TokenStream::new();
        if !self.is_next_punct('<') {
            return out;
        }
        let mut depth = 0;
        while let Some(token) = self.next() {
            depth += is_punct(&token, '<') as i32 - is_punct(&token, '>') as i32;
            out.extend([token]);
            if depth == 0 {
                break;
            }
        }
        out
    }
}

pub fn is_ident(token: &TokenTree, name: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident.to_string() == name)
}

pub fn is_punct(token: &TokenTree, wanted: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == wanted)
}

/// Whether generics have a parameter that is not a lifetime.
pub fn has_type_parameter(generics: &TokenStream) -> bool {
    let text = generics.to_string();
    let inside = text.trim().trim_start_matches('<');
    inside.split(',').any(|part| part.trim().starts_with(|c: char| c.is_alphabetic()))
}

/// The parts between commas that are not inside `<…>`.
pub fn split(tokens: TokenStream, separator: char) -> Vec<TokenStream> {
    let (mut parts, mut depth, mut arrow) = (vec![TokenStream::new()], 0, false);
    for token in tokens {
        let opens = is_punct(&token, '<') as i32 - (is_punct(&token, '>') && !arrow) as i32;
        arrow = is_punct(&token, '-');
        depth += opens;
        if depth == 0 && is_punct(&token, separator) {
            parts.push(TokenStream::new());
        } else if let Some(last) = parts.last_mut() {
            last.extend([token]);
        }
    }
    parts
}

/// The type in `pattern: type`, or None if there is no colon.
pub fn after_colon(tokens: TokenStream) -> Option<TokenStream> {
    let mut tokens = tokens.into_iter();
    tokens.by_ref().find(|token| is_punct(token, ':'))?;
    Some(tokens.collect())
}

/// Source text as tokens with this span.
pub fn parse(source: &str, span: Span) -> TokenStream {
    fn set(token: TokenTree, span: Span) -> TokenTree {
        let mut token = match token {
            TokenTree::Group(group) => {
                let inside = group.stream().into_iter().map(|token| set(token, span)).collect();
                TokenTree::Group(Group::new(group.delimiter(), inside))
            }
            other => other,
        };
        token.set_span(span);
        token
    }
    let tokens: TokenStream = source.parse().expect("the source of a macro is Rust");
    tokens.into_iter().map(|token| set(token, span)).collect()
}

/// `compile_error!("message");` at a place.
pub fn error(span: Span, message: &str) -> TokenStream {
    parse(&format!("::core::compile_error! {{ {message:?} }}"), span)
}

/// The value of a string literal: plain or raw.
pub fn text_of(literal: &Literal) -> Option<String> {
    let source = literal.to_string();
    let raw = source.strip_prefix('r').map(|rest| rest.trim_matches('#'));
    let inside = raw.unwrap_or(&source).strip_prefix('"')?.strip_suffix('"')?;
    if raw.is_some() {
        return Some(inside.to_owned());
    }
    let (mut out, mut chars) = (String::new(), inside.chars().peekable());
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next()? {
            'n' => out.push('\n'),
            '\n' => while chars.next_if(|c| c.is_whitespace()).is_some() {},
            other => out.push(other),
        }
    }
    Some(out)
}

/// The Rust types of each dtype variable, in the order of the where clause's variables in the signature. A variable whose dtypes
/// have no Rust type has an empty list.
pub fn variables(signature: &str) -> Vec<Vec<String>> {
    let Some((head, clauses)) = signature.rsplit_once(" where ") else {
        return Vec::new();
    };
    let is_condition = |clause: &&str| clause.contains(['<', '>']);
    let mut found: Vec<(usize, Vec<String>)> = Vec::new();
    for clause in clauses.split(',').filter(|clause| !is_condition(clause)) {
        let Some((name, dtypes)) = clause.split_once('=') else { continue };
        let at = head.find(&format!("{}[", name.trim())).unwrap_or(usize::MAX);
        let types: Option<Vec<Vec<&str>>> = dtypes.split('|').map(|dtype| rust_types(dtype.trim())).collect();
        let mut types: Vec<_> = types.unwrap_or_default().concat();
        let mut seen = Vec::new();
        types.retain(|one| {
            !seen.contains(one) && {
                seen.push(*one);
                true
            }
        });
        found.push((at, types.into_iter().map(str::to_owned).collect()));
    }
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, types)| types).collect()
}

/// The types of a dtype, or of a group of them; None if Rust has no such type.
fn rust_types(dtype: &str) -> Option<Vec<&'static str>> {
    const INTEGERS: [&str; 8] = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"];
    Some(match dtype {
        "integer" => INTEGERS.to_vec(),
        "real" | "any" => [&INTEGERS[..], &["f32", "f64"]].concat(),
        "f32" | "float32" => vec!["f32"],
        "f64" | "float64" => vec!["f64"],
        "f16" | "float16" => vec!["::tenon::F16"],
        "bf16" | "bfloat16" => vec!["::tenon::Bf16"],
        "bool" => vec!["::tenon::Bool"],
        "c64" | "complex64" => vec!["::tenon::Complex<f32>"],
        "c128" | "complex128" => vec!["::tenon::Complex<f64>"],
        _ => {
            let short = dtype.strip_prefix("uint").map(|bits| format!("u{bits}"));
            let short = short.or_else(|| dtype.strip_prefix("int").map(|bits| format!("i{bits}")));
            let name = short.unwrap_or_else(|| dtype.to_owned());
            vec![*INTEGERS.iter().find(|integer| **integer == name)?]
        }
    })
}
