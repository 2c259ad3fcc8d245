// the callback returns another kind of value
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(g: callable('(i: int) -> int'))")] //~
    fn f(_: Callback<(i64,), f64>) {}
}
fn main() {}
