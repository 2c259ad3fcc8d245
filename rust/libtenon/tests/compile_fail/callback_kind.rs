// an argument of the callback is of another kind
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(g: callable('(i: float) -> int'))")] //~
    fn f(_: Callback<(i64,), i64>) {}
}
fn main() {}
