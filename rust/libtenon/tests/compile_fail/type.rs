// `Foo` cannot be a parameter of a Tenon function
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    struct Foo;
    #[function("f(x: float)")]
    fn f(_: f64, _: Foo) {} //~
}
fn main() {}
