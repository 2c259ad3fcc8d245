// the callback has another number of arguments
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(g: callable('(i: int) -> int'))")] //~
    fn f(_: Callback<(), i64>) {}
}
fn main() {}
