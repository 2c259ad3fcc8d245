// the name `ONE_STATE` is defined multiple times
#![forbid(unsafe_code)]
#[tenon::module(private)] //~
mod kernels {
    #[state]
    fn a() -> tenon::Result<i64> { Ok(1) }
    #[state]
    fn b() -> tenon::Result<i64> { Ok(2) }
}
fn main() {}
