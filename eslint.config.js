import js from "@eslint/js";
import globals from "globals";

export default [
  { ignores: [".venv/**", ".headroom/**", "**/.ipynb_checkpoints/**"] },
  js.configs.recommended,
  {
    languageOptions: { ecmaVersion: 2023, sourceType: "module" },
    linterOptions: { reportUnusedDisableDirectives: "error", reportUnusedInlineConfigs: "error" },
    rules: {
      eqeqeq: "error",
      "no-unused-vars": ["error", { argsIgnorePattern: "^_" }],
      "prefer-const": ["error", { destructuring: "all" }],
      "no-shadow": ["error", { builtinGlobals: false, hoist: "functions" }],
      "no-implicit-globals": "error",
      "no-var": "error",
      "no-self-compare": "off", // NaN is the one number that differs from itself
      "object-shorthand": "error",
      "prefer-template": "off",
      "no-restricted-syntax": "off",
    },
  },
  { files: ["headroom/widgets/*.js"], languageOptions: { globals: globals.browser } },
];
