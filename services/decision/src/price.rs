//! What an answer costs: the one place where tokens become money.

use chassis::registry::Prices;
use protocol::{MAX_EXACT_INTEGER, Usage};

/// Tokens that a price of a price table is for.
const PER: u128 = 1_000_000;

/// The usage of one answer with its cost by the price table, rounded up to a whole micro. Without a table the cost is
/// what the provider said it was.
pub(crate) fn priced(usage: Usage, prices: Option<&Prices>) -> Usage {
    let Some(prices) = prices else {
        return usage;
    };
    let (input, output) = (u128::from(usage.input_tokens), u128::from(usage.output_tokens));
    let input = input.saturating_mul(u128::from(prices.input_micros_per_million));
    let output = output.saturating_mul(u128::from(prices.output_micros_per_million));
    let micros = input.saturating_add(output).div_ceil(PER);
    let cost_micros = u64::try_from(micros).unwrap_or(u64::MAX).min(MAX_EXACT_INTEGER);
    Usage { cost_micros, ..usage }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(tokens: (u64, u64), prices: (u64, u64)) -> u64 {
        let usage = Usage { input_tokens: tokens.0, output_tokens: tokens.1, cost_micros: 7 };
        let prices = Prices { input_micros_per_million: prices.0, output_micros_per_million: prices.1 };
        let priced = priced(usage, Some(&prices));
        assert_eq!((priced.input_tokens, priced.output_tokens), tokens);
        priced.cost_micros
    }

    #[test]
    fn input_and_output_have_their_own_prices_and_the_sum_is_rounded_up_once() {
        assert_eq!(cost((1_000_000, 0), (3_000_000, 15_000_000)), 3_000_000);
        assert_eq!(cost((0, 1_000_000), (3_000_000, 15_000_000)), 15_000_000);
        assert_eq!(cost((310, 48), (3_000_000, 15_000_000)), 310 * 3 + 48 * 15);
        assert_eq!(cost((1, 1), (1, 1)), 1, "two millionths are one micro");
        assert_eq!(cost((1_000_000, 1), (1, 1)), 2);
        assert_eq!(cost((500_000, 500_000), (1, 1)), 1);
    }

    #[test]
    fn nothing_costs_nothing_and_no_amount_overflows() {
        assert_eq!(cost((0, 0), (3, 15)), 0);
        assert_eq!(cost((9, 9), (0, 0)), 0);
        assert_eq!(cost((u64::MAX, u64::MAX), (MAX_EXACT_INTEGER, MAX_EXACT_INTEGER)), MAX_EXACT_INTEGER);
    }

    #[test]
    fn without_a_table_the_providers_word_stands() {
        let usage = Usage { input_tokens: 1, output_tokens: 2, cost_micros: 7 };
        assert_eq!(priced(usage, None), usage);
    }
}
