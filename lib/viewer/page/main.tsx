// The program of the page; where there is no document it is the worker's.

import { render } from 'preact';
import { App } from './app.js';
import { answerQuestions } from './worker.js';

if (typeof document === 'undefined') answerQuestions();
else {
  const page = document.getElementById('page');
  if (page !== null) {
    page.textContent = '';
    render(<App />, page);
  }
}
