// the strings of the enum are other ones
#![forbid(unsafe_code)]
tenon::choices! { pub enum Mode { A = "a", B = "b" } }
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(m: 'a'|'c')")] //~
    fn f(_: super::Mode) {}
}
fn main() {}
