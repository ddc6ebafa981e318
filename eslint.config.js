import js from "@eslint/js";
import globals from "globals";

export default [
  js.configs.recommended,
  {
    files: ["**/*.js"],
    languageOptions: { ecmaVersion: 2023, sourceType: "module" },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      eqeqeq: "error",
      "no-implicit-globals": "error",
      "no-shadow": "error",
      "no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_" }],
      "no-var": "error",
      "object-shorthand": "error",
      "prefer-const": ["error", { destructuring: "all" }],
    },
  },
  {
    files: ["headroom/widgets/**/*.js", "jupyter/**/*.js", "website/**/*.js"],
    languageOptions: { globals: globals.browser },
    rules: { "max-lines": ["error", 500], "max-lines-per-function": ["error", 80] },
  },
  { ignores: [".venv/", ".headroom/", "build/", "lectures/", "labs/", "solutions/", "submitted/", "autograded/", "feedback/"] },
];
